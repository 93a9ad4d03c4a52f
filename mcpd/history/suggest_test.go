package history

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"hutch/fs"
	"hutch/mcpd/ledger"
	"hutch/mcpd/policy"
	"hutch/profiles"
)

// records are tables in memory.
type records map[string][]map[string]any

func (r records) Lines(_ context.Context, table string, do func([]byte) error) error {
	for i, row := range r[table] {
		row["id"], row["timestamp"] = i+1, fmt.Sprintf("2026-11-23T10:%02d:00.000000Z", i%60)
		line, err := json.Marshal(row)
		if err == nil {
			err = do(line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r records) call(method, tool, action string) {
	r[ledger.Calls] = append(r[ledger.Calls], map[string]any{"method": method, "tool_name": tool, "policy_action": action})
}

func suggested(t testing.TB, r records) (string, *profiles.Profile) {
	t.Helper()
	text, err := Suggest(context.Background(), r, "dev")
	if err != nil {
		t.Fatal(err)
	}
	p, err := profiles.Parse("p", []byte(text))
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return text, p
}

func call(tool string) *policy.Event {
	return &policy.Event{On: policy.OnRequest, Method: "tools/call", Server: "s", Name: tool, Known: true}
}

func TestSuggest(t *testing.T) {
	r := records{
		ledger.Net: {
			{"host": "pypi.org", "port": 443, "decision": "allowed"}, {"host": "pypi.org", "port": 80, "decision": "allowed"},
			{"host": "127.0.0.1", "port": 8080, "decision": "allowed"}, {"host": "::1", "port": 8080, "decision": "allowed"},
			{"host": "seen.example", "port": 443, "decision": "allowed", "reason": Observed + "block: no"},
			{"host": "evil.example", "port": 443, "decision": "denied"}, {"host": "gone.example", "port": 443, "decision": "error"},
		},
		ledger.Files: {
			{"operation": "read", "path": "/workspace/src/a.go", "outcome": "ok"}, {"operation": "read", "path": "/workspace/src/b.go", "outcome": "ok"},
			{"operation": "list", "path": "/workspace", "outcome": "ok"}, {"operation": "write", "path": "/workspace/etc/x", "outcome": "denied"},
		},
	}
	r.call("initialize", "", "allow")
	r.call("tools/call", "s__one", "allow")
	r.call("tools/call", "s__one", "allow")
	r.call("tools/call", "s__two", "block")
	r.call("tools/call", "s__three", "observe")
	r.call("tools/call", "s__four", "")
	r.call("tools/call", "s__five", "observe")
	r[ledger.Calls][len(r[ledger.Calls])-1]["policy_rule"] = policy.RuleDefault
	r[ledger.Calls] = append(r[ledger.Calls], map[string]any{"method": "sampling/createMessage", "policy_action": "allow", "direction": ledger.FromServer})
	text, p := suggested(t, r)
	for _, want := range []string{
		"  \"s__one\", // 2 times, last 2026-11-23T10:02:00Z\n", "  \"s__five\", // 1 time, ",
		"  \"initialize\", // 1 time, last 2026-11-23T10:00:00Z\n",
		"  \"pypi.org\", # 2 times, last 2026-11-23T10:01:00Z\n", "  \"/workspace/src\", // 2 times, last",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	for _, not := range []string{"s__two", "s__three", "s__four", "seen.example", "evil.example", "gone.example", "sampling", "etc", "left out"} {
		if strings.Contains(text, not) {
			t.Errorf("%q in:\n%s", not, text)
		}
	}
	if got := fmt.Sprint(p.Network.Allow); got != "[127.0.0.1:8080 [::1]:8080 pypi.org]" {
		t.Error(got)
	}
	for _, test := range []struct {
		e    *policy.Event
		want string
	}{
		{call("s__one"), policy.Allow}, {call("s__two"), policy.Block}, {call("s__one2"), policy.Block},
		{&policy.Event{On: policy.OnRequest, Method: "initialize"}, policy.Allow},
		{&policy.Event{On: policy.OnRequest, Method: "resources/list"}, policy.Allow},
		{&policy.Event{On: policy.OnFile, Operation: "read", Path: "/workspace/src/deep/c.go"}, policy.Allow},
		{&policy.Event{On: policy.OnFile, Operation: "read", Path: "/workspace/srcx/c.go"}, policy.Block},
		{&policy.Event{On: policy.OnFile, Operation: "write", Path: "/workspace/src/a.go"}, policy.Block},
		{&policy.Event{On: policy.OnFile, Operation: "list", Path: "/workspace/x"}, policy.Allow},
	} {
		if d := p.Policy.Decide(test.e); d.Action != test.want {
			t.Errorf("%+v: %+v", test.e, d)
		}
	}
}

// TestSuggestCommands has commands with an argument, without, and both.
func TestSuggestCommands(t *testing.T) {
	r := records{}
	for _, command := range []string{"git status", "git status -s", "ls", "ls /workspace", "pwd", "echo 'a b' c", "cat [redacted]", "'x y' \xc3\xa9"} {
		r[ledger.Execs] = append(r[ledger.Execs], map[string]any{"command": command, "source": "cmd.run"})
	}
	r[ledger.Execs] = append(r[ledger.Execs], map[string]any{"command": "rm -rf /", "source": "tree"}, map[string]any{"command": "cat long… [cut, 9 bytes]", "source": "cmd.run"})
	text, p := suggested(t, r)
	if !p.Commands.Enabled || !strings.Contains(text, `["git", "status"], // 2 times, last 2026-11-23T10:01:00Z`) || strings.Contains(text, "rm") || !strings.Contains(text, "left out: 2 uses") {
		t.Error(text)
	}
	for command, want := range map[string]bool{
		"git status": true, "git status x": true, "git": false, "git push": false, "ls": true, "ls /workspace": true, "ls /etc": false,
		"pwd": true, "pwd -P": false, "echo 'a b'": true, "echo a": false, "cat x": false, "'x y' é": true, "x": false,
	} {
		words, err := fs.Words(command)
		if err != nil {
			t.Fatal(err)
		}
		d := p.Policy.Decide(&policy.Event{On: policy.OnExec, Command: words[0], Words: words[1:]})
		if got := d.Action == policy.Allow; got != want {
			t.Errorf("%s: %v, %+v\n%s", command, got, d, text)
		}
	}
}

// TestSuggestNothing has a VM that used nothing be allowed nothing.
func TestSuggestNothing(t *testing.T) {
	text, p := suggested(t, records{})
	if strings.Contains(text, "[network]") || strings.Contains(text, "[cmd]") {
		t.Error(text)
	}
	if d := p.Policy.Decide(call("s__one")); d.Action != policy.Block || len(p.Network.Allow) > 0 {
		t.Errorf("%+v %v", d, p.Network.Allow)
	}
}

// bad are names that mean something in TOML, or in CEL.
var bad = []string{
	"a\"\n[security]\ndefault = \"allow\"\n#", "'''\n[network]\nallow = [\"*\"]\n'''", "\"] || true || mcp.request.name in [\"", "// x", "\\", "\\\"", "\x00\x01\x1b[2J\x7f",
	"é\u202e𝕏", "''", "\r\n", "\u2028", "${x}", "`", "\t", "a // b",
}

func TestSuggestBadNames(t *testing.T) {
	r := records{}
	for _, name := range bad {
		r.call("tools/call", name, "allow")
		r.call("m"+name, "", "allow")
		r.call(name, name, "allow")
		r[ledger.Files] = append(r[ledger.Files], map[string]any{"operation": name, "path": name + "/" + name, "outcome": "ok"})
		r[ledger.Execs] = append(r[ledger.Execs], map[string]any{"command": fs.QuoteAll([]string{name, name}), "source": "cmd.run"})
		r[ledger.Net] = append(r[ledger.Net], map[string]any{"host": name, "port": 1, "decision": "allowed"})
	}
	text, p := suggested(t, r)
	for _, name := range bad {
		if d := p.Policy.Decide(call(name)); d.Action != policy.Allow {
			t.Errorf("%q: %+v", name, d)
		}
	}
	if d := p.Policy.Decide(call("other")); d.Action != policy.Block || len(p.Network.Allow) > 0 || p.Security.Default != "" {
		t.Errorf("%+v, %+v:\n%s", d, p.Security, text)
	}
	for _, r := range p.Security.Rules {
		if !strings.HasPrefix(r.ID, "security.rules.used.") {
			t.Errorf("a rule %s:\n%s", r.ID, text)
		}
	}
}

// TestSuggestMany has a guest use more names than a profile can hold.
func TestSuggestMany(t *testing.T) {
	r := records{}
	for i := range 3000 {
		r.call("tools/call", fmt.Sprintf("s__%d%s", i, strings.Repeat("'", i%200)), "allow")
		r[ledger.Net] = append(r[ledger.Net], map[string]any{"host": fmt.Sprintf("h%d.example", i), "port": 443, "decision": "allowed"})
		r[ledger.Execs] = append(r[ledger.Execs], map[string]any{"command": fmt.Sprintf("c%d a%d", i/10, i), "source": "cmd.run"})
		r[ledger.Files] = append(r[ledger.Files], map[string]any{"operation": "read", "path": fmt.Sprintf("/workspace/%d/a", i), "outcome": "ok"})
	}
	r.call("tools/call", strings.Repeat("x", 256), "allow")
	r.call("tools/call", "s__[redacted]", "allow")
	text, p := suggested(t, r)
	if strings.Count(text, "# left out: ") != 4 || len(p.Network.Allow) != maxNames || len(text) > 5*maxBytes {
		t.Errorf("%d hosts in %d bytes, %d notes", len(p.Network.Allow), len(text), strings.Count(text, "# left out: "))
	}
	if d := p.Policy.Decide(call("s__0")); d.Action != policy.Allow {
		t.Errorf("%+v", d)
	}
	for path, want := range map[string]string{"/workspace/399/a": policy.Allow, "/workspace/none/a": policy.Block} {
		if d := p.Policy.Decide(&policy.Event{On: policy.OnFile, Operation: "read", Path: path}); d.Action != want {
			t.Errorf("%s: %+v", path, d)
		}
	}
}

// FuzzSuggest has a profile come of any names, which allows these and no other.
func FuzzSuggest(f *testing.F) {
	for _, name := range bad {
		f.Add(name, name)
	}
	f.Add("a", strings.Repeat("\xf1", 3000))
	f.Fuzz(func(t *testing.T, a, b string) {
		r := records{}
		r.call("tools/call", a, "allow")
		r.call("tools/call", b, "allow")
		r[ledger.Net] = []map[string]any{{"host": a, "port": 443, "decision": "allowed"}}
		r[ledger.Files] = []map[string]any{{"operation": b, "path": a, "outcome": "ok"}}
		_, p := suggested(t, r)
		if d := p.Policy.Decide(call(a + b + "x")); d.Action != policy.Block && a != b+"x" {
			t.Errorf("%+v", d)
		}
	})
}

// TestSuggestObserved has what passed only because the policy observes be no use,
// of files and commands too, and a suggestion let a session be opened.
func TestSuggestObserved(t *testing.T) {
	r := records{
		ledger.Files: {
			{"operation": "delete", "path": "/workspace/src/x", "outcome": "ok", "mcp_call_id": 1},
			{"operation": "read", "path": "/workspace/src/x", "outcome": "ok", "mcp_call_id": 2},
		},
		ledger.Execs: {{"command": "rm x", "source": "cmd.run", "mcp_call_id": 3}},
	}
	r.call("tools/call", "fs.delete", policy.Observe)
	r.call("tools/call", "fs.read", policy.Allow)
	r.call("tools/call", "cmd.run", policy.Observe)
	for i, rule := range []string{"security.deny", "default", "security.rules.x.y"} {
		r[ledger.Calls][i]["policy_rule"] = rule
	}
	text, p := suggested(t, r)
	if strings.Contains(text, "delete") || strings.Contains(text, `"rm"`) || !strings.Contains(text, `"read"`) {
		t.Error(text)
	}
	for method, want := range map[string]string{"initialize": policy.Allow, "seal/attest": policy.Allow, "ping": policy.Allow, "tools/list": policy.Allow, "prompts/list": policy.Allow, "resources/list": policy.Allow, "resources/templates/list": policy.Allow, "tasks/get": policy.Allow, "completion/complete": policy.Block} {
		if d := p.Policy.Decide(&policy.Event{On: policy.OnRequest, Method: method}); d.Action != want {
			t.Errorf("%s: %+v", method, d)
		}
	}
}
