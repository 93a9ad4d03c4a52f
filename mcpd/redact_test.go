package mcpd

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
	"hutch/mcpd/policy"
	"hutch/mcpd/redact"
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

// TestRedactedOnlyInLedger has a server answer with a secret, by a result, an
// error and what it tells: the guest reads every byte, the ledger does not.
func TestRedactedOnlyInLedger(t *testing.T) {
	t.Parallel()
	const secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
	st := newSite(t, nil, testServers("one"))
	st.db.AddSecrets("9007199254740993", "told <so>")
	g := st.hello(t, 2, `{}`)
	args := `{"name":"one__echo","arguments":{"token":"` + secret + `","password":"hunter2 hunter2"}}`
	if got := string(g.ok("tools/call", args)); !strings.Contains(got, `{"token":"`+secret+`","password":"hunter2 hunter2"}`) || !strings.Contains(got, `"x":9007199254740993`) {
		t.Errorf("result: %s", got)
	}
	if m := g.do("tools/call", `{"name":"one__error"}`); m.Error == nil || m.Error.Message != "told <so>" || string(m.Error.Data) != `{"big":9007199254740993}` {
		t.Errorf("error: %+v", m.Error)
	}
	g.ok("tools/call", `{"name":"one__log"}`)
	if n := g.note("notifications/message"); !strings.Contains(string(n.Params), "9007199254740993") {
		t.Errorf("told: %s", n.Params)
	}
	for _, r := range st.lines(4)[1:3] {
		if row := fmt.Sprint(r); strings.Contains(row, secret) || strings.Contains(row, "hunter2") || strings.Contains(row, "told <so>") || strings.Contains(row, "9007199254740993") || !strings.Contains(row, "[redacted]") {
			t.Errorf("record: %s", row)
		}
	}
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
	st.hello(t, 2, `{}`).fails("tools/call", `{"name":"none__`+secret+`"}`, jsonrpc.CodeParams, "tool not found: none__"+secret)
	if st.saw(secret) || !st.saw("none__[redacted]") {
		t.Errorf("events: %q", st.events)
	}
	st.Stop()
	if text := log.String(); strings.Contains(text, secret) || !strings.Contains(text, "cannot use [redacted]") {
		t.Errorf("log: %s", text)
	}
}

// TestToldMethod has a server say things by the method of what it tells.
func TestToldMethod(t *testing.T) {
	t.Parallel()
	var r redact.Redactor
	r.Add("quite-private-0815")
	st := newSite(t, func(c *Config) { c.Hide = r.JSON }, nil)
	g := st.hello(t, 2, `{}`)
	key := st.each(func(*session) bool { return true })[0].client.Load().key
	tell := func(want ...string) {
		t.Helper()
		var methods []string
		for _, m := range []string{"quite-private-0815", "secretly", "notifications/quite-private-0815", "notifications/FORBID", "notifications/odd"} {
			st.notified(wire.Notification{Client: key, Method: m})
		}
		g.ok("ping", "")
		for len(g.notes) > 0 {
			if m := <-g.notes; !strings.HasSuffix(m.Method, "list_changed") {
				methods = append(methods, m.Method)
			}
		}
		if !slices.Equal(methods, want) {
			t.Errorf("told %q, want %q", methods, want)
		}
	}
	tell("notifications/[redacted]", "notifications/FORBID", "notifications/odd")
	st.Reload(t.Context(), nil, compiled(t, policy.Config{Rules: []policy.Rule{{
		ID: "r", On: policy.OnResponse, Decision: policy.Block, Priority: 1, If: `mcp.response.content.exists(c, c.text.contains("FORBID"))`,
	}}}))
	tell("notifications/[redacted]", "notifications/odd")
}

// TestTellable has a server give two tools names that are the same without a secret.
func TestTellable(t *testing.T) {
	t.Parallel()
	var r redact.Redactor
	r.Add("quite-private-0815")
	servers := testServers("one")
	st := newSite(t, func(c *Config) { c.Hide = r.JSON }, servers)
	var found []wire.Item
	for _, own := range []string{"a-quite-private-0815", "a-[redacted]", "b", "b-quite-private-0815", "a-%71uite-private-0815"} {
		found = append(found, wire.Item{Name: "one__" + own, Original: own, Server: "one", Raw: fmt.Appendf(nil, `{"name":%q}`, own)})
	}
	var names []string
	for _, it := range st.offered(wire.Tools, nil, found) {
		names = append(names, it.Original)
	}
	if want := []string{"a-quite-private-0815", "b", "b-quite-private-0815"}; !slices.Equal(names, want) {
		t.Errorf("offered %q, want %q", names, want)
	}
}
