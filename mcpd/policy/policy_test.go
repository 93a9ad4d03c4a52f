package policy

import (
	"strings"
	"testing"
)

// listed returns the policy of servers' lists.
func listed(t testing.TB, lists []List) *Policy {
	t.Helper()
	p, err := New(Config{Lists: lists})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDecide(t *testing.T) {
	p := listed(t, []List{
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
		event  Event
		action string
		rule   string
		reason string
	}{
		{Event{Method: call, Server: "github", Tool: "search_repositories", Known: true}, Allow, "mcpServers.github.allowed_tools", ""},
		{Event{Method: call, Server: "github", Name: "github__search_repositories", Known: true}, Allow, "mcpServers.github.allowed_tools", ""},
		{Event{Method: call, Server: "github", Tool: "get_file", Known: true}, Allow, "mcpServers.github.allowed_tools", ""},
		{Event{Method: call, Server: "github", Tool: "get_secrets", Known: true}, Block, "mcpServers.github.blocked_tools", `tool "get_secrets" of server github is blocked by "get_secrets"`},
		{Event{Method: call, Server: "github", Tool: "get_", Known: true}, Block, "mcpServers.github.allowed_tools", ""},
		{Event{Method: call, Server: "github", Tool: "getx", Known: true}, Block, "mcpServers.github.allowed_tools", `tool "getx" is not among the allowed tools of server github`},
		{Event{Method: call, Server: "github", Tool: "Get_file", Known: true}, Block, "mcpServers.github.allowed_tools", ""},
		{Event{Method: call, Server: "github", Tool: "fs.read", Known: true}, Allow, "mcpServers.github.allowed_tools", ""},
		{Event{Method: call, Server: "github", Tool: "fsx.y", Known: true}, Block, "mcpServers.github.allowed_tools", ""},
		{Event{Method: call, Server: "github", Tool: "fs", Known: true}, Block, "mcpServers.github.allowed_tools", ""},
		{Event{Method: call, Server: "github", Tool: "github__get_file", Known: true}, Block, "mcpServers.github.allowed_tools", ""},
		{Event{Method: call, Server: "github", Tool: "", Known: true}, Block, "mcpServers.github.allowed_tools", ""},
		{Event{Method: call, Server: "open", Tool: "x", Known: true}, Allow, "default", ""},
		{Event{Method: call, Server: "local", Tool: "echo", Known: true}, Allow, "default", ""},
		{Event{Method: call, Server: "shut", Tool: "x", Known: true}, Block, "mcpServers.shut.allowed_tools", ""},
		{Event{Method: call, Server: "all", Tool: "x", Known: true}, Allow, "mcpServers.all.allowed_tools", ""},
		{Event{Method: call, Server: "all", Tool: "admin/x", Known: true}, Block, "mcpServers.all.blocked_tools", ""},
		{Event{Method: call, Server: "all", Tool: "administer", Known: true}, Allow, "mcpServers.all.allowed_tools", ""},
		{Event{Method: call, Server: "all", Tool: "rmdir", Known: true}, Block, "mcpServers.all.blocked_tools", ""},
		{Event{Method: call, Server: "none", Tool: "x", Known: true}, Block, "mcpServers.none.blocked_tools", `tool "x" of server none is blocked by "*"`},
		{Event{Method: call, Server: "odd", Tool: "get_file", Known: true}, Block, "mcpServers.odd.allowed_tools", ""},
		{Event{Method: call, Server: "odd", Tool: "", Known: true}, Block, "mcpServers.odd.allowed_tools", ""},
		{Event{Method: call, Server: "odd", Tool: "aXb", Known: true}, Block, "mcpServers.odd.allowed_tools", ""},
		{Event{Method: call, Server: "twice", Tool: "b", Known: true}, Allow, "mcpServers.twice.allowed_tools", ""},
		{Event{Method: call, Server: "twice", Tool: "a", Known: true}, Block, "mcpServers.twice.allowed_tools", ""},
		{Event{Method: call, Server: "open", Tool: "x", Name: "open__x"}, Block, "unregistered", `tool "open__x" is not registered`},
		{Event{Method: call, Tool: "x"}, Block, "unregistered", `tool "x" is not registered`},
		{Event{Method: "tools/list", Server: "none"}, Allow, "default", ""},
		{Event{Method: "resources/read", Server: "shut", Name: "x"}, Allow, "default", ""},
	} {
		tt.event.On = OnRequest
		d := p.Decide(&tt.event)
		if d.Action != tt.action || d.Rule != tt.rule || tt.reason != "" && d.Reason != tt.reason {
			t.Errorf("%+v\n got %+v", tt.event, d)
		}
		if (d.Action == Block) != (d.Reason != "") {
			t.Errorf("%+v: the reason is %q", tt.event, d.Reason)
		}
		if want := codeOf(d.Rule); (d.Action == Block) != (d.Code != nil) || d.Code != nil && d.Code != want {
			t.Errorf("%+v: the code is %+v", tt.event, d.Code)
		}
	}
}

// codeOf returns the code of what a rule blocks.
func codeOf(rule string) *Code {
	if strings.HasSuffix(rule, ".blocked_tools") {
		return ToolExplicitlyDenied
	}
	return ToolNotAllowed
}

func TestText(t *testing.T) {
	p := listed(t, []List{
		{Server: "b", Allowed: []string{}, Blocked: []string{"it's", "x"}},
		{Server: "a", Allowed: []string{"get_*"}, Blocked: []string{}},
		{Server: "open"},
	})
	want := `mcpServers.a.allowed_tools block unless get_*
mcpServers.b.allowed_tools block unless
mcpServers.b.blocked_tools block 'it''s' x
unregistered block
default allow
`
	if got := p.Text(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func BenchmarkDecide(b *testing.B) {
	var lists []List
	for range 100 {
		lists = append(lists, List{Server: "s", Allowed: []string{"a", "b.*", "c"}, Blocked: []string{"x", "y_*"}})
	}
	p := listed(b, lists)
	r := &Event{On: OnRequest, Method: "tools/call", Server: "s", Tool: "c", Known: true}
	for b.Loop() {
		p.Decide(r)
	}
}

// A rule decides by its condition, and one that cannot be found out blocks.
func TestRules(t *testing.T) {
	p, err := New(Config{Default: Block, Rules: []Rule{
		{ID: "tmp", On: OnRequest, If: `mcp.request.arguments.path.startsWith("/tmp/")`, Decision: Allow, Priority: 1},
		{ID: "odd", On: OnRequest, If: `mcp.request.tool_name == "ask"`, Decision: Ask, Priority: 2},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ tool, args, action, rule string }{
		{"x", `{"path":"/tmp/a"}`, Allow, "tmp"},
		{"x", `{"path":"/etc/passwd"}`, Block, "default"},
		{"ask", `{"path":"/etc/passwd"}`, Ask, "odd"},
		{"x", `{}`, Block, "tmp"},
		{"x", `{"path":1}`, Block, "tmp"},
	} {
		d := p.Decide(&Event{On: OnRequest, Method: "tools/call", Tool: tt.tool, Args: []byte(tt.args), Known: true})
		if d.Action != tt.action || d.Rule != tt.rule {
			t.Errorf("%v: got %+v", tt, d)
		}
	}
}

// TestUnasked has a default that blocks: a session can be opened, what there is
// listed, and nothing else.
func TestUnasked(t *testing.T) {
	for _, action := range []string{Ask, Block} {
		p, err := New(Config{Default: action})
		if err != nil {
			t.Fatal(err)
		}
		for method, want := range map[string]string{
			"initialize": Allow, "seal/attest": Allow, "smcp/attest": Allow, "logging/setLevel": Allow,
			"tools/list": Allow, "prompts/list": Allow, "resources/list": Allow, "resources/templates/list": Allow,
			"tools/call": action, "resources/read": action, "prompts/get": action, "completion/complete": action,
			"resources/subscribe": action, "Initialize": action, "no/such": action,
		} {
			if d := p.Decide(&Event{On: OnRequest, Method: method, Known: true}); d.Action != want {
				t.Errorf("default %s, %s: %s, want %s", action, method, d.Action, want)
			}
		}
	}
}
