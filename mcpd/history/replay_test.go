package history

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"hutch/fs"
	"hutch/mcpd/dispatch"
	"hutch/mcpd/ledger"
	"hutch/profiles"
)

// replayed returns the lines of a replay as TABLE ID THEN NOW RULE.
func replayed(t testing.TB, r records, profile string) []string {
	t.Helper()
	p, err := profiles.Parse("p", []byte(profile))
	if err != nil {
		t.Fatal(err)
	}
	text, err := Replay(context.Background(), r, "dev", Profile{p.Name, p.Policy, p.Network, dispatch.Config(p.Commands)})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(text) {
		var d difference
		if err := json.Unmarshal([]byte(line), &d); err != nil || d.Now == d.Then {
			t.Errorf("%v: %s", err, line)
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprint(d.Table, " ", d.ID, " ", d.Then, " ", d.Now, " ", d.Rule)))
	}
	return lines
}

func TestReplay(t *testing.T) {
	const cut = `{"name":"s__del","arguments":{"x":"… [cut, 9999 bytes]`
	r := records{
		ledger.Calls: {
			{"method": "initialize", "policy_action": "allow", "policy_rule": "default", "request_preview": `{"protocolVersion":"1"}`},
			{"method": "tools/call", "tool_name": "s__del", "server_name": "s", "policy_action": "allow", "request_preview": `{"name":"s__del","arguments":{"path":"/etc/x"}}`},
			{"method": "tools/call", "tool_name": "s__del", "server_name": "s", "policy_action": "allow", "request_preview": `{"name":"s__del","arguments":{"path":"/tmp/x"}}`},
			{"method": "tools/call", "tool_name": "s__del", "server_name": "s", "policy_action": "allow", "request_preview": cut},
			{"method": "tools/call", "tool_name": "s__del", "server_name": "s", "policy_action": "allow", "request_preview": `{"arguments":{"path":"[redacted]"}}`},
			{"method": "tools/call", "tool_name": "s__get", "server_name": "s", "policy_action": "block", "policy_rule": "old", "request_preview": `{"arguments":{}}`},
			{"method": "tools/call", "tool_name": "s__ask", "server_name": "s", "policy_action": "allow", "policy_rule": "security.rules.m.ask", "request_preview": `{}`},
			{"method": "tools/call", "tool_name": "s__ask", "server_name": "s", "policy_action": "allow", "policy_rule": "default", "request_preview": `{}`},
			{"method": "tools/call", "tool_name": "s__none", "server_name": "s", "policy_action": "block", "policy_rule": "unregistered", "request_preview": `{}`},
			{"method": "tools/call", "tool_name": "local__echo", "server_name": "builtin", "policy_action": "allow", "request_preview": `{}`},
			{"method": "ping", "policy_action": nil},
			{"direction": "server", "method": "sampling/createMessage", "server_name": "s", "policy_action": "allow", "request_preview": `{"maxTokens":9000}`},
			{"direction": "server", "method": "sampling/createMessage", "server_name": "s", "policy_action": "allow", "request_preview": `{"maxTokens":9}`},
			{"direction": "server", "method": "sampling/createMessage", "server_name": "s", "policy_action": "block", "policy_rule": "old", "request_preview": `{"maxTokens":9}`},
			{"direction": "server", "method": "sampling/createMessage", "server_name": "s", "policy_action": "allow", "request_preview": `{"maxTokens":900… [cut, 9999 bytes]`},
			{"direction": "server", "method": "roots/list", "server_name": "s", "policy_action": nil},
			{"direction": "server", "method": "elicitation/create", "server_name": "s", "policy_action": "allow", "principal": "uid 7"},
		},
		ledger.Net: {
			{"host": "a.example", "port": 443, "method": "CONNECT", "path": "", "decision": "allowed", "rule": "allow a.example"},
			{"host": "b.example", "port": 443, "method": "CONNECT", "path": "", "decision": "allowed", "rule": "allow *"},
			{"host": "a.example", "port": 80, "method": "POST", "path": "/x", "decision": "allowed", "rule": "allow *"},
			{"host": "a.example", "port": 80, "method": "GET", "path": "/%2e%2e/x", "decision": "allowed", "rule": "allow *"},
			{"host": "a.example", "port": 443, "method": "CONNECT", "path": "", "decision": "denied", "rule": "default"},
			{"host": "a.example", "port": 443, "method": "CONNECT", "path": "", "decision": "denied", "rule": "tls"},
			{"host": "a.example", "port": 80, "method": "POST", "path": "/x", "decision": "denied", "rule": "security.rules.w.post"},
			{"host": "b.example", "port": 80, "method": "GET", "path": "/x", "decision": "error", "rule": "allow *"},
		},
		ledger.Files: {
			{"operation": "write", "path": "/workspace/secret/x", "outcome": "ok"},
			{"operation": "write", "path": "/workspace/x", "outcome": "ok"},
			{"operation": "write", "path": "/workspace/secret/x", "outcome": "denied"},
		},
	}
	const profile = `
[network]
allow = ["a.example"]
[security.rules.m.del]
on = "mcp.request"
if = 'mcp.request.tool_name == "del" && mcp.request.arguments.path.startsWith("/etc/")'
decision = "block"
[security.rules.m.ask]
on = "mcp.request"
if = 'mcp.request.name == "s__ask"'
decision = "ask"
[security.rules.m.tokens]
on = "mcp.ask"
if = 'mcp.ask.method == "sampling/createMessage" && mcp.ask.params.maxTokens > 1000'
decision = "block"
[security.rules.m.uid]
on = "mcp.ask"
if = 'principal == "uid 7"'
decision = "ask"
[security.rules.m.local]
on = "mcp.request"
if = 'mcp.request.server_name == "local" && mcp.request.tool_name == "echo"'
decision = "block"
[security.rules.w.post]
on = "http"
if = 'http.method == "POST" && http.path == "/x"'
decision = "block"
[security.rules.f.secret]
on = "file"
if = 'file.path.startsWith("/workspace/secret/")'
decision = "block"
`
	want := []string{
		"mcp_calls 2 allow block security.rules.m.del", "mcp_calls 4 allow unknown", "mcp_calls 5 allow unknown", "mcp_calls 6 block allow default",
		"mcp_calls 8 allow ask security.rules.m.ask", "mcp_calls 10 allow block security.rules.m.local",
		"mcp_calls 12 allow block security.rules.m.tokens", "mcp_calls 14 block allow default", "mcp_calls 15 allow unknown", "mcp_calls 17 allow ask security.rules.m.uid",
		"net_events 2 allow block default", "net_events 3 allow block security.rules.w.post", "net_events 4 allow unknown",
		"net_events 5 block allow network.allow", "net_events 8 allow block default",
		"fs_events 1 allow block security.rules.f.secret",
	}
	if got := replayed(t, r, profile); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, line := range replayed(t, r, "[security]\nmode = \"observe\"\n"+profile) {
		if strings.Contains(line, "security.rules") && !strings.Contains(line, " observe ") && !strings.Contains(line, "allow allow") {
			t.Errorf("in mode observe: %s", line)
		}
	}
}

// TestReplayOf has records that one kind of rule is about.
func TestReplayOf(t *testing.T) {
	run := func(action, rule, args string) map[string]any {
		return map[string]any{"method": "tools/call", "tool_name": "cmd.run", "server_name": "builtin", "policy_action": action, "policy_rule": rule, "request_preview": `{"arguments":` + args + `}`}
	}
	const commands = `
[cmd]
enabled = true
[cmd.allow]
git = ["status", "push"]
cat = ["/workspace/src"]
[security.rules.e.push]
on = "exec"
if = 'exec.args[0] == "push"'
decision = "ask"
`
	ran := records{
		ledger.Calls: {
			run("allow", "security.rules.e.push", `{"command":"git","args":["push"]}`),
			run("block", "cmd.allow", `{"command":"git","args":["status"]}`), run("block", "cmd.allow", `{"command":"git","args":["push"]}`),
			run("block", "cmd.allow", `{"command":"rm"}`), run("block", "cmd.allow", `{"command":7}`),
			run("block", "cmd.allow", `{"command":"cat","args":["./a"],"cwd":"src"}`), run("block", "cmd.allow", `{"command":"cat","args":["./a"]}`),
		},
		ledger.Execs: {
			{"command": "git status -s", "source": "cmd.run"}, {"command": "git push", "source": "cmd.run"}, {"command": "git push", "source": "cmd.run", "mcp_call_id": 1},
			{"command": "rm x", "source": "cmd.run"}, {"command": "rm x", "source": "tree"}, {"command": "git '[redacted]'", "source": "cmd.run"}, {"command": "cat ./a", "source": "cmd.run"},
		},
	}
	for name, test := range map[string]struct {
		records
		profile string
		want    []string
	}{
		"results": {
			records{ledger.Calls: {
				{"method": "tools/call", "tool_name": "s__a", "policy_action": "allow", "request_preview": `{}`, "response_preview": `{"content":[{"type":"text","text":"secret"}]}`},
				{"method": "tools/call", "tool_name": "s__a", "policy_action": "allow", "request_preview": `{}`, "response_preview": `{"content":[{"type":"text","text":"plain"}]}`},
				{"method": "tools/call", "tool_name": "s__a", "policy_action": "allow", "request_preview": `{}`, "response_preview": `{"content":[{"type":"text","text":"pl… [cut, 9999 bytes]`},
				{"method": "tools/call", "tool_name": "s__a", "policy_action": "block", "request_preview": `{}`},
			}},
			"[security.rules.m.r]\non = \"mcp.response\"\nif = 'mcp.response.content.exists(c, c.text.contains(\"secret\"))'\ndecision = \"block\"\n",
			[]string{"mcp_calls 1 allow block security.rules.m.r", "mcp_calls 3 allow unknown", "mcp_calls 4 block unknown"},
		},
		"commands": {ran, commands, []string{
			"mcp_calls 2 block allow default", "mcp_calls 3 block ask security.rules.e.push", "mcp_calls 6 block allow default",
			"exec_events 2 allow ask security.rules.e.push", "exec_events 4 allow block cmd.allow", "exec_events 6 allow unknown", "exec_events 7 allow unknown",
		}},
		"no commands": {records{ledger.Execs: ran[ledger.Execs][:1]}, "", []string{"exec_events 1 allow block cmd.enabled"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := replayed(t, test.records, test.profile); fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// TestReplaySuggested has what is suggested decide the same as was decided, and
// not allow what is like it.
func TestReplaySuggested(t *testing.T) {
	r := records{
		ledger.Net: {
			{"host": "pypi.org", "port": 443, "method": "CONNECT", "decision": "allowed"}, {"host": "::1", "port": 8080, "method": "GET", "path": "/x", "decision": "allowed"},
			{"host": "evil.example", "port": 443, "method": "CONNECT", "decision": "denied"}, {"host": "pypi.org", "port": 8080, "method": "GET", "path": "/", "decision": "denied"},
		},
		ledger.Files: {
			{"operation": "write", "path": "/workspace/src/a.go", "outcome": "ok"}, {"operation": "list", "path": "/workspace/src", "outcome": "ok"},
		},
	}
	for _, tool := range []string{"s__one", "fs.write", "cmd.run", "", "it's"} {
		r.call("tools/call", tool, "allow")
	}
	r.call("tools/call", "s__two", "block")
	r.call("initialize", "", "allow")
	for _, words := range [][]string{{"git", "status", "-s"}, {"ls"}, {"ls", "/workspace"}, {"cat", "./a b"}, {"echo", "it's #1"}, {"echo", ""}} {
		r[ledger.Execs] = append(r[ledger.Execs], map[string]any{"command": fs.QuoteAll(words), "source": "cmd.run"})
	}
	text, _ := suggested(t, r)
	if got := replayed(t, r, text); len(got) > 0 {
		t.Errorf("%s\nof\n%s", strings.Join(got, "\n"), text)
	}
	other := records{
		ledger.Calls: {{"method": "tools/call", "tool_name": "s__three", "policy_action": "allow"}},
		ledger.Net:   {{"host": "files.pypi.org", "port": 443, "method": "CONNECT", "decision": "allowed"}},
		ledger.Files: {{"operation": "read", "path": "/workspace/src/a.go", "outcome": "ok"}, {"operation": "write", "path": "/workspace/a.go", "outcome": "ok"}},
		ledger.Execs: {{"command": "git push", "source": "cmd.run"}, {"command": "ls /etc", "source": "cmd.run"}, {"command": "cat b", "source": "cmd.run"}},
	}
	if got := replayed(t, other, text); len(got) != 7 || strings.Count(fmt.Sprint(got), "allow block") != 7 {
		t.Errorf("%s\nof\n%s", strings.Join(got, "\n"), text)
	}
}

// TestReplayMany has more differences than are told.
func TestReplayMany(t *testing.T) {
	r := records{}
	for i := range 40000 {
		r.call("tools/call", fmt.Sprint("s__", i), "block")
	}
	p, err := profiles.Parse("p", nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := Replay(context.Background(), r, "dev", Profile{p.Name, p.Policy, p.Network, dispatch.Config(p.Commands)})
	if err != nil || len(text) > maxReplay+64 || !strings.Contains(text[len(text)-64:], "\n{\"more\":") {
		t.Errorf("%d bytes, %v: %q", len(text), err, text[len(text)-64:])
	}
}

// FuzzReplay has records of anything.
func FuzzReplay(f *testing.F) {
	f.Add(`{"id":1,"method":"tools/call","tool_name":"s__x","policy_action":"allow","request_preview":"{\"arguments\":[]}"}`)
	f.Add(`{"id":1,"host":"a","port":70000,"path":"/%"}`)
	f.Add("[]")
	p, err := profiles.Parse("p", []byte("[security]\ndefault = \"block\"\n[security.rules.a.b]\non = \"http\"\ndecision = \"block\"\nif = 'http.port == 1'\n"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, line string) {
		text, err := Replay(context.Background(), raw(line), "dev", Profile{p.Name, p.Policy, p.Network, dispatch.Config(p.Commands)})
		if err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(text) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%q", line)
			}
		}
		if _, err := Suggest(context.Background(), raw(line), "dev"); err != nil {
			t.Error(err)
		}
	})
}

// A raw is a line that stands in every table.
type raw string

func (r raw) Lines(_ context.Context, _ string, do func([]byte) error) error { return do([]byte(r)) }

// TestReplayRewritten has what is recorded as it was rewritten be no difference, as
// long as the rule is there.
func TestReplayRewritten(t *testing.T) {
	r := records{ledger.Calls: {{
		"server_name": "s", "method": "tools/call", "tool_name": "s__x", "policy_action": "rewrite", "policy_rule": "security.rules.m.hide",
		"request_preview": `{"name":"s__x","arguments":{"t":"[hidden]"}}`,
	}}}
	const profile = "[security.rules.m.hide]\non = \"mcp.request\"\ndecision = \"rewrite\"\nset = {t = \"[hidden]\"}\n"
	if got := replayed(t, r, profile); len(got) > 0 {
		t.Errorf("the same profile: %q", got)
	}
	if got := replayed(t, r, ""); fmt.Sprint(got) != "[mcp_calls 1 rewrite allow default]" {
		t.Errorf("without the rule: %q", got)
	}
}
