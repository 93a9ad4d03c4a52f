package policy

import "testing"

// TestArranged decides calls of tools that a group has given other names: what says
// the server's own name, with the server or without, is about them all the same, and
// none passes for a tool of hutch's own.
func TestArranged(t *testing.T) {
	mail := Event{On: OnRequest, Method: "tools/call", Server: "gmail", Tool: "send", Name: "mail", Known: true, Arranged: true}
	like := func(name, tool string) Event {
		e := mail
		e.Name, e.Tool = name, tool
		return e
	}
	deny := func(tools ...string) Config { return Config{Deny: tools} }
	allow := func(tools ...string) Config {
		return Config{Capabilities: []Capability{{Name: "c", Tools: tools}}}
	}
	for _, tt := range []struct {
		name string
		c    Config
		e    Event
		want string
	}{
		{"nothing said", Config{}, mail, Allow},
		{"deny by own name", deny("send"), mail, Block},
		{"deny by full name", deny("gmail__send"), mail, Block},
		{"deny of the server", deny("gmail__*"), mail, Block},
		{"deny by given name", deny("mail"), mail, Block},
		{"deny of another", deny("gmail__read"), mail, Allow},
		{"blocked on the server", Config{Lists: []List{{Server: "gmail", Blocked: []string{"send"}}}}, mail, Block},
		{"allowed on the server", Config{Lists: []List{{Server: "gmail", Allowed: []string{"mail"}}}}, mail, Block},
		{"capability by own name", allow("send"), mail, Allow},
		{"capability by full name", allow("gmail__send"), mail, Allow},
		{"capability by given name", allow("mail"), mail, Allow},
		{"capability of another", allow("gmail__read"), mail, Block},
		{"named as one of hutch's", allow("fs.*"), like("fs.read", "send"), Block},
		{"called as one of hutch's", allow("fs.*"), like("mail", "fs.read"), Block},
		{"plain, as one of hutch's", allow("fs.*", "cmd.run"), like("cmd.run", "cmd.run"), Block},
		{"plain, said in full", allow("gmail__cmd.run"), like("cmd.run", "cmd.run"), Allow},
		{"rule by server and own name", Config{Rules: []Rule{{
			ID: "r", On: OnRequest, Decision: Block, Priority: PriorityUsual, If: `mcp.request.server_name == "gmail" && mcp.request.tool_name == "send"`,
		}}}, mail, Block},
		{"rule by given name", Config{Rules: []Rule{{ID: "r", On: OnRequest, Decision: Block, Priority: PriorityUsual, If: `mcp.request.name == "mail"`}}}, mail, Block},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := New(tt.c)
			if err != nil {
				t.Fatal(err)
			}
			if d := p.Decide(&tt.e); d.Action != tt.want {
				t.Errorf("%s, by %s: %s; want %s", d.Action, d.Rule, d.Reason, tt.want)
			}
		})
	}
}

// TestArrangedAlways allows a tool always: another that is given its name is not.
func TestArrangedAlways(t *testing.T) {
	mail := Event{On: OnRequest, Method: "tools/call", Server: "gmail", Tool: "send", Name: "mail", Known: true, Arranged: true}
	p, err := New(Config{Default: Ask})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Always(&mail, RuleDefault, false)
	if err != nil {
		t.Fatal(err)
	}
	if p, err = New(Config{Default: Ask, Rules: []Rule{r}}); err != nil {
		t.Fatal(err)
	}
	other := mail
	other.Server = "spam"
	if d, o := p.Decide(&mail), p.Decide(&other); d.Action != Allow || o.Action != Ask {
		t.Errorf("it: %s, another of its name: %s", d.Action, o.Action)
	}
}
