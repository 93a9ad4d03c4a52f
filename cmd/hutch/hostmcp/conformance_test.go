package hostmcp

import (
	"io"
	"testing"

	"hutch/fs/need"
	"hutch/mcpd/mcptest"
)

// TestConformance has MCP's conformance suite try the server: all that it has to
// say of servers passes, but for what testdata/conformance.txt names.
func TestConformance(t *testing.T) {
	suite := need.Conformance(t)
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			d := &mcptest.Door{Start: func() (io.Reader, io.WriteCloser) {
				in, out := s.pipes(Config{Version: "test"})
				return out, in
			}}
			mcptest.Compare(t, "server "+revision, nil, mcptest.Run(t, suite, "server", "--url", d.Open(t), "--requirements", revision))
		})
	}
}
