package mcpd

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
)

// A sharedBuffer is a log that is read while it is written.
type sharedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *sharedBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *sharedBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestSecretsRepeated has a server print the secret that it was given, and die.
func TestSecretsRepeated(t *testing.T) {
	t.Parallel()
	const secret = "quite-private-0815"
	log := &sharedBuffer{}
	leaky := wire.Server{Name: "leaky", Enabled: true, Program: wire.Program{Command: "/bin/sh",
		Args: []string{"-c", `echo "cannot use $KEY" >&2; exit 3`}, Env: map[string]string{"KEY": secret}}}
	st := newSite(t, func(c *Config) { c.AggLog = log }, []wire.Server{leaky})
	st.db.AddSecrets(secret)
	st.hello(t, 2, `{}`).fails("tools/call", `{"name":"leaky__x"}`, jsonrpc.CodeInternal, "cannot use [redacted]")
	for where, text := range map[string]string{"mcp/servers": st.awaitServers("cannot use"), "record": st.lines(2)[1]["error_message"].(string)} {
		if strings.Contains(text, secret) || !strings.Contains(text, "cannot use") {
			t.Errorf("%s: %s", where, text)
		}
	}
	st.hello(t, 2, `{}`).fails("tools/call", `{"name":"none__`+secret+`"}`, jsonrpc.CodeInvalid, "unregistered")
	if st.saw(secret) || !st.saw("none__[redacted]") {
		t.Errorf("events: %q", st.events)
	}
	st.Stop()
	if text := log.String(); strings.Contains(text, secret) || !strings.Contains(text, "cannot use [redacted]") {
		t.Errorf("log: %s", text)
	}
}
