package policy

import (
	"context"
	"testing"
)

func TestDecide(t *testing.T) {
	p := New([]Rule{
		{Server: "github", Allowed: []string{"search_repositories", "get_*", "fs.*"}, Blocked: []string{"get_secrets"}},
		{Server: "open"},
		{Server: "shut", Allowed: []string{}},
		{Server: "all", Allowed: []string{"*"}, Blocked: []string{"admin/*", "rm*"}},
		{Server: "none", Blocked: []string{"*"}},
		{Server: "odd", Allowed: []string{"get*", "", "a*b"}},
		{Server: "twice", Allowed: []string{"a", "b"}},
		{Server: "twice", Allowed: []string{"b", "c"}},
	})
	const call = "tools/call"
	for _, tt := range []struct {
		request Request
		action  string
		rule    string
		reason  string
	}{
		{Request{Method: call, Server: "github", Tool: "search_repositories", Known: true}, Allow, "mcpServers.github.allowed_tools", ""},
		{Request{Method: call, Server: "github", Name: "github__search_repositories", Known: true}, Allow, "mcpServers.github.allowed_tools", ""},
		{Request{Method: call, Server: "github", Tool: "get_file", Known: true}, Allow, "mcpServers.github.allowed_tools", ""},
		{Request{Method: call, Server: "github", Tool: "get_secrets", Known: true}, Block, "mcpServers.github.blocked_tools", `tool "get_secrets" of server github is blocked by "get_secrets"`},
		{Request{Method: call, Server: "github", Tool: "get_", Known: true}, Block, "mcpServers.github.allowed_tools", ""},
		{Request{Method: call, Server: "github", Tool: "getx", Known: true}, Block, "mcpServers.github.allowed_tools", `tool "getx" is not among the allowed tools of server github`},
		{Request{Method: call, Server: "github", Tool: "Get_file", Known: true}, Block, "mcpServers.github.allowed_tools", ""},
		{Request{Method: call, Server: "github", Tool: "fs.read", Known: true}, Allow, "mcpServers.github.allowed_tools", ""},
		{Request{Method: call, Server: "github", Tool: "fsx.y", Known: true}, Block, "mcpServers.github.allowed_tools", ""},
		{Request{Method: call, Server: "github", Tool: "fs", Known: true}, Block, "mcpServers.github.allowed_tools", ""},
		{Request{Method: call, Server: "github", Tool: "github__get_file", Known: true}, Block, "mcpServers.github.allowed_tools", ""},
		{Request{Method: call, Server: "github", Tool: "", Known: true}, Block, "mcpServers.github.allowed_tools", ""},
		{Request{Method: call, Server: "open", Tool: "x", Known: true}, Allow, "default", ""},
		{Request{Method: call, Server: "local", Tool: "echo", Known: true}, Allow, "default", ""},
		{Request{Method: call, Server: "shut", Tool: "x", Known: true}, Block, "mcpServers.shut.allowed_tools", ""},
		{Request{Method: call, Server: "all", Tool: "x", Known: true}, Allow, "mcpServers.all.allowed_tools", ""},
		{Request{Method: call, Server: "all", Tool: "admin/x", Known: true}, Block, "mcpServers.all.blocked_tools", ""},
		{Request{Method: call, Server: "all", Tool: "administer", Known: true}, Allow, "mcpServers.all.allowed_tools", ""},
		{Request{Method: call, Server: "all", Tool: "rmdir", Known: true}, Block, "mcpServers.all.blocked_tools", ""},
		{Request{Method: call, Server: "none", Tool: "x", Known: true}, Block, "mcpServers.none.blocked_tools", `tool "x" of server none is blocked by "*"`},
		{Request{Method: call, Server: "odd", Tool: "get_file", Known: true}, Block, "mcpServers.odd.allowed_tools", ""},
		{Request{Method: call, Server: "odd", Tool: "", Known: true}, Block, "mcpServers.odd.allowed_tools", ""},
		{Request{Method: call, Server: "odd", Tool: "aXb", Known: true}, Block, "mcpServers.odd.allowed_tools", ""},
		{Request{Method: call, Server: "twice", Tool: "b", Known: true}, Allow, "mcpServers.twice.allowed_tools", ""},
		{Request{Method: call, Server: "twice", Tool: "a", Known: true}, Block, "mcpServers.twice.allowed_tools", ""},
		{Request{Method: call, Server: "open", Tool: "x", Name: "open__x"}, Block, "unregistered", `tool "open__x" is not registered`},
		{Request{Method: call, Tool: "x"}, Block, "unregistered", `tool "x" is not registered`},
		{Request{Method: "tools/list", Server: "none"}, Allow, "default", ""},
		{Request{Method: "resources/read", Server: "shut", Name: "x"}, Allow, "default", ""},
	} {
		d := p.Decide(context.Background(), &tt.request)
		if d.Action != tt.action || d.Rule != tt.rule || tt.reason != "" && d.Reason != tt.reason {
			t.Errorf("%+v\n got %+v", tt.request, d)
		}
		if (d.Action == Block) != (d.Reason != "") {
			t.Errorf("%+v: the reason is %q", tt.request, d.Reason)
		}
	}
}

func TestText(t *testing.T) {
	p := New([]Rule{
		{Server: "b", Allowed: []string{}, Blocked: []string{"it's", "x"}},
		{Server: "a", Allowed: []string{"get_*"}, Blocked: []string{}},
		{Server: "open"},
	})
	want := `unregistered block
mcpServers.a.allowed_tools allow get_*
mcpServers.b.blocked_tools block 'it''s' x
mcpServers.b.allowed_tools allow
default allow
`
	if got := p.Text(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func BenchmarkDecide(b *testing.B) {
	var rules []Rule
	for range 100 {
		rules = append(rules, Rule{Server: "s", Allowed: []string{"a", "b.*", "c"}, Blocked: []string{"x", "y_*"}})
	}
	p := New(rules)
	r := &Request{Method: "tools/call", Server: "s", Tool: "c", Known: true}
	for b.Loop() {
		p.Decide(context.Background(), r)
	}
}
