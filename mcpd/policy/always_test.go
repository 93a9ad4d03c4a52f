package policy

import (
	"strings"
	"testing"

	"hutch/fs"
)

// A rule that an answer makes is tried right before the one that asked.
func TestAlways(t *testing.T) {
	const asks = "security.rules.mcp.b_asks"
	rules := []Rule{
		{ID: "security.rules.mcp.a_secret", On: OnRequest, If: `has(mcp.request.arguments.secret)`, Decision: Block, Priority: PriorityUsual},
		{ID: asks, On: OnRequest, If: `mcp.request.tool_name.startsWith("create")`, Decision: Ask, Priority: PriorityUsual},
		{ID: "security.rules.http.asks", On: OnHTTP, Decision: Ask, Priority: PriorityUsual},
		{ID: "security.rules.corp.asks", Layer: LayerCorp, On: OnRequest, If: `mcp.request.tool_name == "corp"`, Decision: Ask, Priority: -1},
	}
	call := func(tool, args string) *Event {
		return &Event{On: OnRequest, Method: "tools/call", Server: "s", Tool: tool, Name: "s__" + tool, Known: true, Args: []byte(args)}
	}
	const odd = `{"a":"it's \"q\" \u00e9\n","n":[1,2.5,-3,1e3,null,true],"o":{"x":{}}}`
	for _, tt := range []struct {
		e     *Event
		exact bool
		then  []*Event // and what is decided of them
		want  string
	}{
		{call("create.it", `{}`), false, []*Event{call("create.it", odd), call("create_other", `{}`), call("create.it", `{"secret":1}`)}, "allow ask block"},
		{call("create", odd), true, []*Event{call("create", odd), call("create", `{}`)}, "allow ask"},
		{
			&Event{On: OnHTTP, Host: "example.com", Port: 443, Method: "CONNECT"}, false,
			[]*Event{{On: OnHTTP, Host: "example.com", Port: 443, Method: "CONNECT"}, {On: OnHTTP, Host: "example.com", Port: 80, Method: "GET"}}, "allow ask",
		},
	} {
		p, err := New(Config{Rules: rules})
		if err != nil {
			t.Fatal(err)
		}
		d := p.Decide(tt.e)
		r, err := p.Always(tt.e, d.Rule, tt.exact)
		if err != nil {
			t.Errorf("%s: %v", tt.e.Name, err)
			continue
		}
		if p, err = New(Config{Rules: append(rules[:len(rules):len(rules)], r)}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range append(tt.then, tt.e)[:len(tt.then)] {
			got = append(got, p.Decide(e).Action)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %s: %v, want %s", tt.e.Name, r.If, got, tt.want)
		}
		if strings.Contains(strings.TrimPrefix(r.ID, "security.rules.asks."), ".") {
			t.Errorf("name %q", r.ID)
		}
	}
	p, _ := New(Config{Rules: rules, Default: Ask})
	if _, err := p.Always(call("corp", `{}`), "security.rules.corp.asks", false); !fs.Is(err, fs.ErrPermission) {
		t.Errorf("corp's: %v", err)
	}
	if _, err := p.Always(call("create", `{"n":1e999}`), asks, true); !fs.Is(err, fs.ErrUnsupported) {
		t.Errorf("a number too large: %v", err)
	}
	if _, err := p.Always(&Event{On: OnAsk, Method: "sampling/createMessage"}, "default", false); !fs.Is(err, fs.ErrUnsupported) {
		t.Errorf("what a server asks: %v", err)
	}
	e := call("other", `{}`)
	r, err := p.Always(e, p.Decide(e).Rule, false)
	if err != nil || r.Answers != "default" {
		t.Errorf("the default: %+v, %v", r, err)
	}
	for _, tt := range []struct{ byDefault, want string }{{Ask, Allow}, {Block, Block}} { // which nobody asks about
		if p, _ = New(Config{Rules: append(rules[:len(rules):len(rules)], r), Default: tt.byDefault}); p.Decide(e).Action != tt.want {
			t.Errorf("%s: %+v", tt.byDefault, p.Decide(e))
		}
	}
	r.Answers = "security.rules.corp.asks"
	if p, _ = New(Config{Rules: append(rules[:len(rules):len(rules)], r)}); strings.Contains(p.Text(), r.ID) {
		t.Error("a rule for corp's is tried")
	}
}
