package policy

import (
	"errors"
	"strings"
	"testing"
)

const entities = `[
	{"uid": {"type": "Client", "id": "dev"}, "attrs": {"vm": "a lie", "team": "core"}, "parents": [{"type": "Group", "id": "developers"}]},
	{"uid": {"type": "Tool", "id": "github__search"}, "attrs": {"readonly": true}, "parents": []}
]`

func TestCedar(t *testing.T) {
	p := compiled(t, Config{Cedar: Cedar{Entities: entities, Policies: map[string]string{
		"weather": `permit(principal, action == Action::"call_tool", resource == Tool::"weather");`,
		"etc":     `forbid(principal, action, resource) when { context has arg_path && context.arg_path like "/etc/*" };`,
		"group":   `permit(principal in Group::"developers", action, resource in MCP::"github") when { resource.readonly };`,
		"files": `permit(principal, action, resource) when { resource.name == "fs.read" && context has arg_path && principal.vm == "dev" };
			permit(principal == User::"ann", action, resource == Tool::"fs.write");`,
		"number":   `permit(principal, action, resource == Tool::"count") when { context.arg_n < 10 && context.arg_d.lessThan(decimal("2.5")) && context.arg_b && context has arg_list_present };`,
		"prompt":   `permit(principal, action == Action::"get_prompt", resource == Prompt::"github__review");`,
		"resource": `permit(principal, action == Action::"read_resource", resource) when { resource.uri like "file:///docs/*" };`,
	}}})
	call := func(tool, args string) Event {
		e := *toolCall(tool, args)
		e.VM = "dev"
		return e
	}
	as := func(e Event, vm, user string) Event { e.VM, e.Principal = vm, user; return e }
	ask := func(method, name string) Event { return Event{On: OnRequest, Method: method, Name: name, VM: "dev"} }
	for _, tt := range []struct {
		event  Event
		code   *Code
		reason string
	}{
		{call("weather", `{}`), nil, ""},
		{call("weather", `{"path":"/etc/passwd"}`), ToolExplicitlyDenied, `tool "weather" is forbidden by policy "etc"`},
		{call("weather", `{"path":1}`), ToolNotAllowed, `policy "etc" cannot be evaluated`},
		{call("weather", `{"path":"a","path":"/etc/x"}`), ToolNotAllowed, `ambiguous member "path"`},
		{call("weather", `[`), ToolNotAllowed, "cannot be read"},
		{call("weather2", `{}`), ToolNotAllowed, `no policy permits tool "weather2"`},
		{call("github__search", `{}`), nil, ""},
		{call("github__push", `{}`), ToolNotAllowed, `policy "group" cannot be evaluated`},
		{as(call("github__search", `{}`), "other", ""), ToolNotAllowed, "no policy permits"},
		{call("fs.read", `{"path":"a"}`), nil, ""},
		{call("fs.read", `{}`), ToolNotAllowed, "no policy permits"},
		{as(call("fs.read", `{"path":"a"}`), "other", ""), ToolNotAllowed, ""},
		{as(call("fs.write", `{}`), "dev", "ann"), nil, ""},
		{as(call("fs.write", `{}`), "ann", ""), ToolNotAllowed, ""}, // a VM of that name is not the user
		{call("count", `{"n":9,"d":2.25,"b":true,"list":[]}`), nil, ""},
		{call("count", `{"n":10,"d":2.25,"b":true,"list":[]}`), ToolNotAllowed, "no policy permits"},
		{call("count", `{"n":1e0,"d":2.25,"b":true,"list":[]}`), nil, ""},
		{call("count", `{"n":1e1,"d":2.25,"b":true,"list":[]}`), ToolNotAllowed, "no policy permits"},
		{call("count", `{"n":1.00001,"d":2.25,"b":true,"list":[]}`), ToolNotAllowed, "cannot be evaluated"},
		{call("count", `{"n":9,"d":2.500001,"b":true,"list":[]}`), ToolNotAllowed, "no policy permits"},
		{call("count", `{"n":9,"d":2.4999,"b":true,"list":[]}`), nil, ""},
		{call("weather", `{"n":9223372036854775808}`), ToolNotAllowed, `argument "n" is a number that is too large for Cedar`},
		{call("weather", `{"n":1e300}`), ToolNotAllowed, "too large for Cedar"},
		{call("weather", `{"n":-1e999}`), ToolNotAllowed, "too large for Cedar"},
		{call("weather", `{"n":null}`), nil, ""},
		{ask("prompts/get", "github__review"), nil, ""},
		{ask("prompts/get", "weather"), ToolNotAllowed, `no policy permits prompt "weather"`},
		{ask("resources/read", "file:///docs/a"), nil, ""},
		{ask("resources/subscribe", "file:///docs/a"), nil, ""},
		{ask("resources/read", "file:///etc/a"), ToolNotAllowed, "no policy permits resource"},
		{ask("tools/list", ""), nil, ""}, {ask("initialize", ""), nil, ""}, {ask("notifications/x", ""), nil, ""},
		{ask("made/up", ""), ToolNotAllowed, `no Cedar action is for "made/up"`},
		{Event{On: OnAsk, Method: "roots/list"}, nil, ""},
	} {
		tt.event.Known = true
		d := p.Decide(&tt.event)
		if d.Code != tt.code || !strings.Contains(d.Reason, tt.reason) {
			t.Errorf("%s %s %s\n got %+v\nwant %+v %s", tt.event.Method, tt.event.Name, tt.event.Args, d, tt.code, tt.reason)
		}
	}
	for name, shown := range map[string]bool{"weather": true, "fs.read": true, "count": true, "github__search": true, "other": false} {
		e := call(name, "")
		e.Listing = true
		if d := p.Decide(&e); (d.Action == Allow) != shown {
			t.Errorf("%s in a list: %+v", name, d)
		}
	}
}

func TestCedarFaults(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "no policy",
		"permit":                              `does not parse: near line 1 column 7: expected "(", found the end`,
		"permit(principal, action);":          `does not parse: near line 1 column 26: expected ",", found ")"`,
		"permit(principal, action, resource)": `does not parse: near line 1 column 36: expected ";", found the end`,
		"permit(principal, action,\n resource) when { x };":                                                                  `does not parse: near line 2 column 21: invalid primary`,
		`permit(principal, action == Action::"call", resource);`:                                                             `no request is Action::"call": actions are call_tool get_prompt read_resource`,
		`forbid(principal, action in [Action::"call_tool", Action::"call"], resource);`:                                      `no request is Action::"call"`,
		`forbid(principal, action in Action::"read", resource);`:                                                             `no request is Action::"read"`,
		"// " + strings.Repeat("x", 1<<17):                                                                                   "more than",
		"permit(principal, action, resource) when { " + strings.Repeat("(", 500) + "true" + strings.Repeat(")", 500) + " };": "nested deeper",
		"permit(principal, action, resource) when { " + strings.Repeat("if true then ", 500) + "true };":                     "nested deeper",
		"permit(principal, action, resource) when { " + strings.Repeat("!", 500) + "true };":                                 "nested deeper",
	} {
		_, err := New(Config{Cedar: Cedar{Policies: map[string]string{"x": text}}})
		var f *Fault
		if !errors.As(err, &f) || f.Of != ruleCedar || f.Key != "x" || !strings.Contains(f.Text, want) {
			t.Errorf("%.60q: %v", text, err)
		}
	}
	groups := `[{"uid": {"type": "Action", "id": "call_tool"}, "attrs": {}, "parents": [{"type": "Action", "id": "read"}]}]`
	p := compiled(t, Config{Cedar: Cedar{Entities: groups, Policies: map[string]string{"x": `permit(principal, action in Action::"read", resource);`}}})
	if d := p.Decide(toolCall("a", "{}")); d.Action != Allow {
		t.Errorf("an action of a group: %+v", d)
	}
	if _, err := New(Config{Cedar: Cedar{Entities: "[{]"}}); err == nil {
		t.Error("bad entities")
	}
}

// FuzzCedar: a policy that compiles can be evaluated, and nothing is permitted
// that a policy beside it forbids.
func FuzzCedar(f *testing.F) {
	f.Add(`permit(principal, action, resource);`, "[]", `{"path":"x"}`)
	f.Add(`permit(principal in Group::"g", action, resource) when { context.arg_a like "*" && resource.x.y == [1,{a:2}] };`, entities, `{"a":1.5,"b":null}`)
	f.Add(`@id("x") forbid(principal, action, resource) unless { ip("1.2.3.4").isLoopback() || decimal("1.0").lessThan(context.arg_d) };`, "", `{}`)
	f.Fuzz(func(t *testing.T, text, entities, args string) {
		c := Cedar{Policies: map[string]string{"x": text}, Entities: entities}
		p, err := New(Config{Cedar: c})
		if err != nil {
			return
		}
		e := toolCall("a", args)
		p.Decide(e)
		e.Listing = true
		p.Decide(e)
		c.Policies["never"] = `forbid(principal, action, resource);`
		if p, err = New(Config{Cedar: c}); err != nil {
			return
		}
		if d := p.Decide(toolCall("a", args)); d.Action != Block {
			t.Errorf("%q %q: %+v", text, args, d)
		}
	})
}

func BenchmarkCedar(b *testing.B) {
	p := compiled(b, Config{Cedar: Cedar{Policies: map[string]string{
		"a": `permit(principal, action == Action::"call_tool", resource == Tool::"weather");`,
		"b": `forbid(principal, action, resource) when { context has arg_path && context.arg_path like "/etc/*" };`,
	}}})
	e := toolCall("weather", `{"path":"x"}`)
	b.ReportAllocs()
	for b.Loop() {
		p.Decide(e)
	}
}
