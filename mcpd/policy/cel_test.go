package policy

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// decideBy returns what one rule of a condition decides of e, by Default Block.
func decideBy(t *testing.T, condition string, e *Event) Decision {
	t.Helper()
	p, err := New(Config{Default: Block, Rules: []Rule{{ID: "r", On: e.On, If: condition, Decision: Allow, Priority: 1}}})
	if err != nil {
		t.Fatalf("%s: %v", condition, err)
	}
	return p.Decide(e)
}

// Every root has the value of its event.
func TestRoots(t *testing.T) {
	said := map[string]Event{
		OnRequest: {
			Method: "tools/call", Server: "s", Tool: "t", Name: "s__t", Process: "py", Known: true,
			Args: []byte(`{"path":"/x","n":9007199254740993,"u":18446744073709551615,"f":0.5,"l":[1,{"a":"b"}],"z":null}`),
		},
		OnResponse: {Method: "tools/call", Server: "s", Args: []byte(`{"a":1}`), Answer: []byte(`{"content":[{"type":"text","text":"hi"}],"structuredContent":{"n":1},"isError":true}`)},
		OnAsk:      {Method: "sampling/createMessage", Server: "s", Process: "py", Args: []byte(`{"maxTokens":10}`)},
		OnFile:     {Operation: "write", Path: "a/b", Bytes: 7},
		OnExec:     {Command: "git", Words: []string{"push", "-f"}},
		OnHTTP:     {Host: "a.example", Port: 443, Method: "GET", Path: "/p", Scheme: "https"},
	}
	named := make(map[string]bool)
	for _, tt := range []struct{ on, condition string }{
		{OnRequest, `mcp.request.method == "tools/call" && mcp.request.server_name == "s" && mcp.request.tool_name == "t"`},
		{OnRequest, `mcp.request.name == "s__t" && mcp.request.process_name == "py" && vm.name == "dev" && vm.profile == "default"`},
		{OnRequest, `session == "1" && principal == "glenda"`},
		{OnRequest, `mcp.request.arguments.path == "/x" && mcp.request.arguments["path"].size() == 2`},
		{OnRequest, `mcp.request.arguments.n == 9007199254740993 && mcp.request.arguments.n != 9007199254740992`},
		{OnRequest, `mcp.request.arguments.u == 18446744073709551615u && mcp.request.arguments.f < 1`},
		{OnRequest, `mcp.request.arguments.l[1].a == "b" && mcp.request.arguments.l.exists(x, x == 1)`},
		{OnRequest, `mcp.request.arguments.z == null && !has(mcp.request.arguments.nothing)`},
		{OnResponse, `mcp.response.is_error && mcp.response.result_status == "failed" && mcp.response.bytes > 80`},
		{OnResponse, `mcp.response.content.exists(c, c.text.contains("hi")) && mcp.response.structured.n == 1`},
		{OnResponse, `mcp.request.arguments.a == 1 && mcp.request.method == "tools/call"`},
		{OnAsk, `mcp.ask.method == "sampling/createMessage" && mcp.ask.server_name == "s" && mcp.ask.params.maxTokens == 10 && mcp.ask.process_name == "py"`},
		{OnFile, `file.operation == "write" && file.path.startsWith("a/") && file.bytes == 7`},
		{OnExec, `exec.command == "git" && "-f" in exec.args && exec.args[0] == "push"`},
		{OnHTTP, `http.host == "a.example" && http.port == 443 && http.method == "GET" && http.path == "/p" && http.scheme == "https"`},
	} {
		e := said[tt.on]
		e.On, e.VM, e.Profile, e.Session, e.Principal = tt.on, "dev", "default", "1", "glenda"
		if d := decideBy(t, tt.condition, &e); d.Rule != "r" || d.Action != Allow {
			t.Errorf("%s: %+v", tt.condition, d)
		}
		for name := range values {
			if strings.Contains(tt.condition, name) {
				named[name] = true
			}
		}
	}
	for name := range values {
		if !named[name] {
			t.Errorf("no condition has %s", name)
		}
	}
}

// What came of a request, of every kind.
func TestResponses(t *testing.T) {
	for _, tt := range []struct {
		answer    string
		failed    bool
		condition string
	}{
		{`{"content":[]}`, false, `mcp.response.result_status == "ok" && !mcp.response.is_error && mcp.response.content == []`},
		{`{"contents":[{"text":"x"}]}`, false, `mcp.response.content[0].text == "x"`},
		{`{"messages":[{"role":"user"}]}`, false, `mcp.response.content[0].role == "user"`},
		{`{"tools":[]}`, false, `mcp.response.content == [] && !has(mcp.response.structured.x)`},
		{`{"content":[],"isError":true}`, true, `mcp.response.result_status == "failed"`},
		{`{"code":-32000,"message":"m","data":{"d":1}}`, true, `mcp.response.result_status == "error" && mcp.response.content[0].text == "m" && mcp.response.structured.d == 1`},
	} {
		d := decideBy(t, tt.condition, &Event{On: OnResponse, Answer: []byte(tt.answer), Failed: tt.failed})
		if d.Rule != "r" {
			t.Errorf("%s: %s: %+v", tt.answer, tt.condition, d)
		}
	}
}

// A condition that does not compile says where and what.
func TestConditionFaults(t *testing.T) {
	for _, tt := range []struct {
		on, condition string
		line          int
		want          string
	}{
		{OnRequest, `mcp.request.method == `, 0, "column 23: Syntax error"},
		{OnRequest, `mcp.request.metod == "x"`, 0, "column 1: unknown name mcp.request.metod: known are mcp.request.method mcp.request.server_name "},
		{OnRequest, "mcp.request.method == 'x' &&\n  foo.bar == 1", 1, "column 3: unknown name foo.bar: known are "},
		{OnRequest, `http.host == "x"`, 0, "column 1: unknown name http.host"},
		{OnRequest, `mcp.request.method == 1`, 0, "column 20: found no matching overload for '_==_' applied to '(string, int)'"},
		{OnRequest, `mcp.request.method`, 0, "is of type string: write a condition that is true or false"},
		{OnRequest, `mcp.request.arguments + 1 == 2`, 0, "column 23: found no matching overload"},
		{OnRequest, `mcp.request.method = "x"`, 0, "column 20: = is no operator: == compares"},
		{OnRequest, `mcp.request.method="x"`, 0, "column 19: = is no operator: == compares"},
		{OnRequest, `mcp.request.method.matches("(")`, 0, "column 28: the regular expression \"(\" is wrong: missing closing ): `(`"},
		{OnRequest, `mcp.request.method.matches("(a{1000}){1000}")`, 0, "column 28: the regular expression \"(a{1000}){1000}\" is wrong: invalid repeat count: `{1000}`"},
		{OnRequest, `mcp.request.method.matches("((a{100}){10}){10}")`, 0, "column 28: the regular expression "},
		{OnRequest, `mcp.request.method.matches("(a{100}){20}")`, 0, "column 28: the regular expression \"(a{100}){20}\" is wrong: invalid repeat count: `{20}`"},
		{OnRequest, `"x".matches(mcp.request.name)`, 0, "a regular expression has to be written in the condition"},
		{OnRequest, `mcp.request.method.matches("(a{90}b{90}){10}c{900}d{900}")`, 0, "column 28: the regular expression is too large: make it simpler"},
		{OnRequest, `true` + strings.Repeat(" ", 20000), 0, "has 20004 bytes, at most 16384: make several rules of it"},
		{OnRequest, strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200), 0, "column"},
		{OnRequest, `mcp.request.tool_nam.size() > 1`, 0, "column 1: undeclared reference to 'mcp.request.tool_nam.size' (did you mean 'mcp.request.tool_name'?)"},
		{OnRequest, `sizes(mcp.request.name) > 1`, 0, "column 1: undeclared reference to 'sizes' (did you mean 'size'?)"},
		{OnRequest, "true" + strings.Repeat("||true", 2000), 0, "column"},
		{OnRequest, costly(5), 0, "costs too much whatever is asked: make it simpler"},
	} {
		_, err := New(Config{Rules: []Rule{{ID: "r", On: tt.on, If: tt.condition, Decision: Block, Priority: 1}}})
		var f *Fault
		if !errors.As(err, &f) || f.Of != "r" || f.Key != "if" || f.Line != tt.line || !strings.Contains(f.Text, tt.want) {
			t.Errorf("%.80s:\n got %v\nwant %s", tt.condition, err, tt.want)
		}
	}
}

// costly is a condition of so many loops of ten in each other.
func costly(loops int) string {
	text := "true"
	for range loops {
		text = "[1,2,3,4,5,6,7,8,9,10].map(x, " + text + ").size() == 10"
	}
	return text
}

// A condition that cannot be found out blocks, and says what to do.
func TestConditionErrors(t *testing.T) {
	long := `{"l":[` + strings.Repeat("1,", 90_000) + `1]}`
	for _, tt := range []struct{ args, condition, want string }{
		{`{}`, `mcp.request.arguments.path == "x"`, "no such key: path: ask for it first, as has(mcp.request.arguments.path) does"},
		{`{"path":1}`, `mcp.request.arguments.path.startsWith("x")`, "a value is of another type, or a number that is too large: ask for it first"},
		{`{"n":18446744073709551616}`, `mcp.request.arguments.n > 1`, "a number that is too large"},
		{`{"n":1e400}`, `mcp.request.arguments.n > 1`, "a number that is too large"},
		{`[1]`, `has(mcp.request.arguments.n)`, "the arguments are no object"},
		{`{"b":"true"}`, `mcp.request.arguments.b`, "it is neither true nor false"},
		{long, `mcp.request.arguments.l.exists(x, x == 2)`, "it costs more than 100000 steps: make it simpler"},
		{`{"a":"` + strings.Repeat("a", 1<<20) + `"}`, `mcp.request.arguments.a.matches("^(a|b|ab)*c$")`, "it costs more than"},
	} {
		d := decideBy(t, tt.condition, &Event{On: OnRequest, Method: "tools/call", Known: true, Args: []byte(tt.args)})
		if d.Action != Block || d.Rule != "r" || !strings.Contains(d.Reason, tt.want) {
			t.Errorf("%.40s, %s: %+v", tt.args, tt.condition, d)
		}
	}
	// What is not looked at costs nothing.
	for _, args := range []string{`{"n":18446744073709551616,"path":"x"}`, `null`, ``} {
		if d := decideBy(t, `!has(mcp.request.arguments.path) || mcp.request.arguments.path == "x"`, &Event{On: OnRequest, Known: true, Args: []byte(args)}); d.Action != Allow {
			t.Errorf("%s: %+v", args, d)
		}
	}
}

func TestPriorities(t *testing.T) {
	for _, tt := range []struct {
		rule Rule
		want string
	}{
		{Rule{Priority: 0}, "priority 0: it is from -1000 to -1 of corp's rules and from 1 to 999 of all"},
		{Rule{Priority: 1000}, "priority 1000: it is"},
		{Rule{Priority: -1001, Layer: LayerCorp}, "priority -1001: it is"},
		{Rule{Priority: -1, Layer: "user"}, "priority -1: those below 0 are for corp's rules: write 1 to 999"},
		{Rule{Priority: 1, Decision: "no"}, "decision"},
		{Rule{Priority: 1, On: "dns"}, "on"},
	} {
		if tt.rule.ID = "r"; tt.rule.On == "" {
			tt.rule.On = OnRequest
		}
		if tt.rule.Decision == "" {
			tt.rule.Decision = Block
		}
		_, err := New(Config{Rules: []Rule{tt.rule}})
		var f *Fault
		if !errors.As(err, &f) || !strings.HasPrefix(f.Key+" "+f.Text, tt.want) {
			t.Errorf("%+v: %v", tt.rule, err)
		}
	}
	rules := []Rule{
		{ID: "b", On: OnRequest, Decision: Ask, Priority: 5},
		{ID: "a", On: OnRequest, Decision: Block, Priority: 5},
		{ID: "s", On: OnRequest, Decision: Allow, Priority: 4, Server: "s"},
		{ID: "c", On: OnRequest, Decision: Allow, Priority: -1, Layer: LayerCorp, If: `mcp.request.tool_name == "c"`},
	}
	p, err := New(Config{Rules: rules, Lists: []List{{Server: "s", Blocked: []string{"*"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ server, tool, rule string }{
		{"s", "c", "c"},                          // corp goes before lists
		{"s", "x", "mcpServers.s.blocked_tools"}, // lists go before the user's
		{"o", "x", "a"},                          // by name, and not by the rule of another server
	} {
		if d := p.Decide(&Event{On: OnRequest, Method: "tools/call", Server: tt.server, Tool: tt.tool, Known: true}); d.Rule != tt.rule {
			t.Errorf("%+v: %+v", tt, d)
		}
	}
	if d := p.Decide(&Event{On: OnRequest, Method: "tools/list", Server: "s"}); d.Rule != "s" {
		t.Errorf("a server's own rule: %+v", d)
	}
}

// What belongs to a request that was decided is not decided by the default.
func TestDefault(t *testing.T) {
	p, err := New(Config{Default: Block})
	if err != nil {
		t.Fatal(err)
	}
	for on, want := range map[string]string{OnRequest: Block, OnAsk: Block, OnResponse: Allow, OnFile: Allow, OnExec: Allow, OnHTTP: Allow} {
		if d := p.Decide(&Event{On: on}); d.Action != want {
			t.Errorf("%s: %+v", on, d)
		}
	}
}

// TestCounted has the cost of a condition counted, but where it cannot come to
// too much.
func TestCounted(t *testing.T) {
	for _, tt := range []struct {
		text         string
		linear, free bool
	}{
		{`mcp.request.arguments.a == "x" && mcp.request.tool_name in ["a", "b"]`, true, true},
		{`mcp.request.arguments.a.matches("^[a-z]+$")`, false, true},
		{`mcp.request.arguments.l.exists(x, x == "a")`, false, true},
		{`mcp.request.arguments.l.all(x, x.startsWith("a"))`, false, true},
		{`mcp.request.arguments.l.exists(x, mcp.request.arguments.l.exists(y, x == y))`, false, false},
		{`mcp.request.arguments.l.exists(x, mcp.request.arguments.a.contains(x))`, false, false},
		{`mcp.request.arguments.l.exists_one(x, x == "a")`, false, false},
		{`size(mcp.request.arguments.l.map(x, x + x)) > 1`, false, false},
		{`size(mcp.request.arguments.l.filter(x, x == "a")) > 1`, false, false},
	} {
		c, _, err := findFamily(OnRequest).compile(tt.text)
		if err != nil {
			t.Fatalf("%s: %v", tt.text, err)
		}
		if c.linear != tt.linear || (c.free != nil) != tt.free {
			t.Errorf("%s: linear %v, free %v", tt.text, c.linear, c.free != nil)
		}
	}
}

// TestLargeCounted has a loop refused on an event that it costs too much on.
func TestLargeCounted(t *testing.T) {
	p, err := New(Config{Rules: []Rule{{ID: "r", On: OnRequest, Decision: Allow, Priority: 1, If: `mcp.request.arguments.l.exists(x, x == "a")`}}})
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]string{10: Allow, 100_000: Block} {
		args := `{"l":[` + strings.Repeat(`"b",`, n) + `"a"]}`
		d := p.Decide(&Event{On: OnRequest, Method: "tools/call", Server: "s", Tool: "t", Name: "s__t", Known: true, Args: []byte(args)})
		if d.Action != want {
			t.Errorf("%d words: %+v", n, d)
		}
	}
}

// FuzzCondition: a condition compiles or is a Fault that says so, and one that
// compiles decides, both in a time that nobody notices.
func FuzzCondition(f *testing.F) {
	for _, text := range []string{
		`mcp.request.arguments.path.startsWith("/tmp/") && !has(mcp.request.arguments.x)`,
		`mcp.request.arguments.l.exists(x, mcp.request.arguments.l.all(y, x == y || x > 1))`,
		`mcp.request.method.matches("^(a|b|ab)*c$")`, `[1,2].map(x, [x, x]).size() > 1 ? true : 1/0 == 0`,
		"http.host == 'a'\n  || vm.name in [b'x', r'\\', null]", `((((mcp.request.tool_name))))`, `{"a": 1u}.a < 1.5e9`,
	} {
		f.Add(text)
	}
	e := Event{
		On: OnRequest, Method: "tools/call", Server: "s", Tool: "t", Name: "s__t", Known: true,
		Args: []byte(`{"path":"/x","l":[1,2,3,{"a":"b"},null],"n":1.5}`),
	}
	f.Fuzz(func(t *testing.T, text string) {
		began := time.Now()
		p, err := New(Config{Rules: []Rule{{ID: "r", On: OnRequest, If: text, Decision: Block, Priority: 1}}})
		if err == nil {
			e := e
			if d := p.Decide(&e); d.Action != Allow && d.Rule != "r" {
				t.Errorf("%q: %+v", text, d)
			}
		} else if f, ok := errors.AsType[*Fault](err); !ok || f.Of != "r" || f.Text == "" || f.Line < 0 || f.Line > strings.Count(text, "\n") {
			t.Errorf("%q: %#v", text, err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%q takes %v", text, took)
		}
	})
}

// A number that no type of CEL holds is equal to no other, in tables and lists
// as well.
func TestHuge(t *testing.T) {
	for _, n := range []string{"18446744073709551616", "123456789012345678901234567891", "-99999999999999999999", "1e401", "-1e999"} {
		args := []byte(`{"n":` + n + `,"l":[` + n + `],"o":{"n":` + n + `}}`)
		for _, condition := range []string{
			`mcp.request.arguments == {"n": 1, "l": [1], "o": {"n": 1}}`, `mcp.request.arguments.o == {"n": 1}`, `mcp.request.arguments.l == [1]`,
			`mcp.request.arguments.n == 1`, `1 in mcp.request.arguments.l`, `mcp.request.arguments.n in [1, 2.0, 3u]`, `mcp.request.arguments.o == mcp.request.arguments.o`,
			`type(mcp.request.arguments.n) == int`, `has(mcp.request.arguments.n) && mcp.request.arguments.n == 1e400`,
		} {
			e := &Event{On: OnRequest, Method: "tools/call", Known: true, Args: args}
			if strings.Contains(condition, "1e400") { // CEL's infinity
				condition = strings.Replace(condition, "1e400", `double("inf")`, 1)
			}
			if d := decideBy(t, condition, e); d.Action != Block || d.Rule != RuleDefault {
				t.Errorf("%s of %s: %+v", condition, n, d)
			}
		}
	}
}
