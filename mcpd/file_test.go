package mcpd

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"hutch/aggd/jsonrpc"
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
