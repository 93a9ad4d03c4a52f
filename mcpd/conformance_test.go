package mcpd

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"hutch/aggd/wire"
	"hutch/fs/need"
	"hutch/mcpd/mcptest"
)

// revisions are those that the suite tries.
var revisions = []string{"2025-11-25", "2026-07-28"}

// TestConformanceServer has MCP's conformance suite try a server, and the same
// server behind hutch: what passes directly passes through hutch, but for what
// testdata/conformance.txt names.
func TestConformanceServer(t *testing.T) {
	suite := need.Conformance(t)
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			var args []string
			if revision == "2025-11-25" {
				args = []string{"-stateless=false"} // it asks the client
			}
			url, program := need.ServeConformance(t, args...)
			direct := mcptest.Run(t, suite, "server", "--url", url, "--requirements", revision)
			for name, s := range map[string]wire.Server{"http": {URL: url}, "stdio": {Program: wire.Program{Command: program}}} {
				t.Run(name, func(t *testing.T) {
					s.Name, s.Enabled, s.ConnectTimeout = "ev", true, wire.Duration(patience)
					st := newSite(t, nil, []wire.Server{s})
					through := mcptest.Run(t, suite, "server", "--url", openDoor(t, st, "ev"), "--requirements", revision)
					mcptest.Compare(t, "server "+revision, direct, through)
				})
			}
		})
	}
}

// TestConformanceClient has the suite try a client, and the same client through
// hutch: its servers see what comes of hutch.
func TestConformanceClient(t *testing.T) {
	suite := need.Conformance(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			client := need.ConformanceClient(t)
			direct := mcptest.Run(t, suite, "client", "--command", client, "--requirements", revision)
			through := mcptest.Run(t, suite, "client", "--command", fmt.Sprintf("%s -test.run=^TestConformanceCommand$ -test.timeout=1m %s", self, client), "--requirements", revision)
			mcptest.Compare(t, "client "+revision, direct, through)
		})
	}
}

// TestConformanceCommand is what the suite runs as a client: it runs the one that
// its first argument names, with an endpoint between it and the suite's server.
func TestConformanceCommand(t *testing.T) {
	if os.Getenv("MCP_CONFORMANCE_SCENARIO") == "" {
		t.Skip("the conformance suite runs it")
	}
	st := newSite(t, nil, []wire.Server{{Name: "ev", URL: flag.Arg(1), Enabled: true, ConnectTimeout: wire.Duration(patience)}})
	if said, err := exec.CommandContext(t.Context(), flag.Arg(0), openDoor(t, st, "ev")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}
