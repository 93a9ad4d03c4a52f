package mcpd

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
	"hutch/mcpd/dispatch"
	"hutch/mcpd/ledger"
	"hutch/mcpd/policy"
)

// files returns the rows of fs_events.
func (st *site) files() (rows []map[string]any) {
	st.t.Helper()
	if err := st.db.Flush(context.Background()); err != nil {
		st.t.Fatal(err)
	}
	log := st.db.Log(ledger.Files)
	p := make([]byte, log.Size())
	for n := 0; n < len(p); {
		m, err := log.ReadAt(context.Background(), p[n:], int64(n), false)
		if err != nil {
			st.t.Fatal(err)
		}
		n += m
	}
	for line := range strings.Lines(string(p)) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			st.t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return rows
}

// Each operation on a file is decided by itself, and is a row of its own.
func TestFiles(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, nil)
	var asked []policy.Event
	st.decideBy(func(_ context.Context, r *policy.Event) policy.Decision {
		if r.On == policy.OnFile {
			asked = append(asked, *r)
			if r.Path == "/workspace/secret" {
				return policy.Decision{Action: policy.Block, Rule: "security.rules.file.secret", Reason: "it is secret"}
			}
		}
		return policy.Decision{Action: policy.Allow, Rule: "default"}
	})
	g := st.dial(t, 1)
	if got := string(g.ok("tools/call", `{"name":"fs.write","arguments":{"path":"a/b","content":"hello"}}`)); !strings.Contains(got, `"structuredContent":{"success":true,"bytes_written":5}`) {
		t.Errorf("fs.write: %s", got)
	}
	g.ok("tools/call", `{"name":"fs.read","arguments":{"path":"/workspace/none"}}`)
	g.fails("tools/call", `{"name":"fs.read","arguments":{"path":"secret"}}`, jsonrpc.CodeInvalid, "it is secret")
	g.fails("tools/call", `{"name":"fs.read","arguments":{"path":"a/%2e%2e/secret"}}`, jsonrpc.CodeInvalid, `".." is not allowed, nor what can be read as that`)
	if len(asked) != 3 || asked[0].Operation != "write" || asked[0].Path != "/workspace/a/b" || asked[0].Bytes != 5 || asked[0].Process != "agent" || asked[2].Operation != "read" {
		t.Errorf("asked about %+v", asked)
	}
	calls, rows := st.lines(4), st.files()
	if len(rows) != 4 {
		t.Fatalf("rows %v", rows)
	}
	for i, want := range []struct{ operation, path, outcome, source, text string }{
		{"write", "/workspace/a/b", "ok", "fs.write", ""},
		{"read", "/workspace/none", "error", "fs.read", "no such file"},
		{"read", "/workspace/secret", "denied", "fs.read", "it is secret"},
		{"read", "a/%2e%2e/secret", "denied", "fs.read", "is not allowed"},
	} {
		r := rows[i]
		text, _ := r["error_message"].(string)
		if r["outcome"] == "denied" {
			text, _ = r["policy_reason"].(string)
		}
		if r["operation"] != want.operation || r["path"] != want.path || r["outcome"] != want.outcome || r["source"] != want.source || !strings.Contains(text, want.text) ||
			r["process_name"] != "agent" || r["mcp_call_id"] != calls[i]["id"] || r["trace_id"] != calls[i]["trace_id"] {
			t.Errorf("row %d: %v, want %v", i, r, want)
		}
	}
	if rows[0]["bytes"] != 5.0 || rows[0]["duration_ms"] == nil || rows[3]["policy_rule"] != "traversal" || calls[3]["decision"] != "denied" {
		t.Errorf("rows %v", rows)
	}
	if !st.saw(`tools/call "fs.read": traversal: ".." is not allowed, nor what can be read as that: path "a/%2e%2e/secret"`) {
		t.Error("no event")
	}
}

// What a search finds is decided as what it is: what the policy refuses is not
// looked into, and the guest is told that something was left out.
func TestSearchDecided(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, nil)
	for _, name := range []string{".git/config", "keys/k", "src/a", "src/new\nline"} {
		path := filepath.Join(st.work, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		os.WriteFile(path, []byte("here"), 0o644)
	}
	reload := func(mode string) {
		st.Reload(t.Context(), nil, compiled(t, policy.Config{Mode: mode, Deny: []string{"fs.*:/workspace/.git/*", "file_list:/workspace/keys"}, Rules: []policy.Rule{{
			ID: "keys", On: policy.OnFile, If: `file.path.startsWith("/workspace/keys/")`, Decision: policy.Block, Priority: policy.PriorityUsual,
		}}}))
	}
	reload(policy.Enforce)
	g := st.dial(t, 1)
	for _, tt := range []struct{ params, has, hasNot string }{
		{`{"name":"fs.grep","arguments":{"pattern":"here"}}`, `src/a:1:here\n[left out, as the policy refuses it: 3]`, "config"},
		{`{"name":"fs.grep","arguments":{"pattern":"here","path":"keys"}}`, `"files_searched":0,"truncated":false,"refused":1`, "k:1"},
		{`{"name":"fs.glob","arguments":{"pattern":"**"}}`, `"refused":1`, "config"},
		{`{"name":"file_list","arguments":{}}`, `"refused":2`, "keys/k"},
		{`{"name":"fs.list","arguments":{"path":"src"}}`, `file 4 \"new\\nline\"`, "refused"},
	} {
		if got := string(g.ok("tools/call", tt.params)); !strings.Contains(got, tt.has) || strings.Contains(got, tt.hasNot) {
			t.Errorf("%s: %s", tt.params, got)
		}
	}
	reload(policy.Observe)
	if got := string(g.ok("tools/call", `{"name":"fs.grep","arguments":{"pattern":"here"}}`)); !strings.Contains(got, ".git/config") || !strings.Contains(got, "keys/k") {
		t.Errorf("observing: %s", got)
	}
}

// A link that leads out of the workspace is refused as a ".." is, and told of.
func TestLinkOut(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, nil)
	os.Symlink("/etc/passwd", filepath.Join(st.work, "out"))
	g := st.dial(t, 1)
	g.fails("tools/call", `{"name":"fs.read","arguments":{"path":"out"}}`, jsonrpc.CodeInvalid, `traversal: path "out" leads out of the workspace by a link to "/etc/passwd"`)
	if got := string(g.ok("tools/call", `{"name":"file_read","arguments":{"path":"out"}}`)); !strings.Contains(got, "leads out of the workspace") || !strings.Contains(got, `"isError":true`) {
		t.Errorf("file_read: %s", got)
	}
	rows := st.files()
	if r := rows[1]; r["outcome"] != "denied" || r["path"] != "/workspace/out" {
		t.Errorf("%v", r)
	}
	if r := rows[0]; len(rows) != 2 || r["outcome"] != "denied" || r["policy_rule"] != "traversal" || r["path"] != "/workspace/out" {
		t.Errorf("%v", rows)
	}
}

// What a tool itself refuses is denied, and told of, as what is refused before it runs.
func TestRefusedInside(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, nil)
	g := st.dial(t, 1)
	for i, tt := range []struct{ tool, path, args string }{
		{"fs.read", "/etc/passwd", `{"path":"/etc/passwd"}`},
		{"fs.grep", "/etc", `{"path":"/etc","pattern":"x"}`},
		{"fs.write", "/etc/x", `{"path":"/etc/x","content":""}`},
		{"file_read", "../../etc/passwd", `{"path":"../../etc/passwd"}`},
		{"file_read", "/etc/passwd", `{"path":"/etc/passwd"}`},
		{"file_write", "/workspace/../x", `{"path":"/workspace/../x","content":""}`},
		{"file_delete", "/etc/x", `{"path":"/etc/x"}`},
		{"file_list", "/", `{"path":"/"}`},
		{"dir_list", "..", `{"path":".."}`},
		{"dir_create", "/etc/x", `{"path":"/etc/x"}`},
	} {
		if got := string(g.ok("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tt.tool, tt.args))); !strings.Contains(got, `"isError":true`) {
			t.Errorf("%s %s: %s", tt.tool, tt.args, got)
		}
		calls, rows := st.lines(i+1), st.files()
		if c := calls[i]; c["decision"] != "denied" || c["policy_action"] != "block" || c["policy_rule"] != "traversal" || c["policy_reason"] == "" || c["is_error"] != 1.0 {
			t.Errorf("%s %s: %v", tt.tool, tt.args, c)
		}
		if len(rows) != i+1 {
			t.Fatalf("%s %s: rows %v", tt.tool, tt.args, rows)
		}
		if r := rows[i]; r["outcome"] != "denied" || r["policy_rule"] != "traversal" || r["source"] != tt.tool || !strings.HasSuffix(r["path"].(string), strings.TrimPrefix(tt.path, "/workspace")) {
			t.Errorf("%s %s: %v", tt.tool, tt.args, r)
		}
		if !st.saw(fmt.Sprintf(`tools/call %q: traversal: path`, tt.tool)) {
			t.Errorf("%s %s: no event", tt.tool, tt.args)
		}
	}
	g.ok("tools/call", `{"name":"file_read","arguments":{"path":"none"}}`)
	if c := st.lines(11)[10]; c["decision"] != "allowed" {
		t.Errorf("a file that there is not is denied: %v", c)
	}
	if d := st.Endpoint.Count(); d.Denied != 10 {
		t.Errorf("%+v", d)
	}
}

// Of the tools that fetch their own result says that it is a refusal; of another server
// that says nothing.
func TestRefusedByLocal(t *testing.T) {
	said := json.RawMessage(`{"content":[{"type":"text","text":"Error: refused: 10.0.0.1 is not a public address"}],"isError":true,"_meta":{"hutch/refused":true}}`)
	c := &call{server: wire.Local}
	if d := c.ownRefusal(said); d == nil || d.Rule != "private" || d.Reason != "refused: 10.0.0.1 is not a public address" {
		t.Errorf("%+v", d)
	}
	if d := (&call{command: &commandCall{wrong: &dispatch.Outside{Dir: "/etc"}}}).ownRefusal(said); d == nil || d.Rule != "cwd" {
		t.Errorf("%+v", d)
	}
	if d := (&call{server: "other"}).ownRefusal(said); d != nil {
		t.Errorf("%+v", d)
	}
	if d := c.ownRefusal(json.RawMessage(`{"content":[],"isError":true}`)); d != nil {
		t.Errorf("%+v", d)
	}
}
