package policy

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"hutch/aggd/guard"
)

func TestParseEvent(t *testing.T) {
	for _, tt := range []struct {
		text                           string
		on, method, server, tool, name string
	}{
		{`{"server":"github","tool":"create_issue"}`, OnRequest, "tools/call", "github", "create_issue", "github__create_issue"},
		{`{"on":"mcp.request","name":"github__create_issue","arguments":{"a":1}}`, OnRequest, "tools/call", "github", "create_issue", "github__create_issue"},
		{`{"name":"file_read"}`, OnRequest, "tools/call", "", "file_read", "file_read"},
		{`{"on":"mcp.response","tool":"x","result":{},"is_error":true}`, OnResponse, "tools/call", "", "x", "x"},
		{`{"on":"mcp.request","method":"resources/read","server":"a","tool":"u:b"}`, OnRequest, "resources/read", "a", "u:b", "a__u:b"},
		{`{"on":"http","host":"example.com","port":443,"method":"CONNECT","scheme":"https","path":"/"}`, OnHTTP, "CONNECT", "", "", ""},
		{`{"on":"exec","command":"git","args":["push"]}`, OnExec, "", "", "", ""},
		{`{"on":"file","operation":"write","path":"/workspace/x","bytes":3}`, OnFile, "", "", "", ""},
	} {
		e, err := ParseEvent([]byte(tt.text))
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		if e.On != tt.on || e.Method != tt.method || e.Server != tt.server || e.Tool != tt.tool || e.Name != tt.name || !e.Known || !e.Trial {
			t.Errorf("%s: %+v", tt.text, e)
		}
	}
	for _, tt := range []struct{ text, want string }{
		{``, "event: "},
		{`[]`, "event: "},
		{`{}`, `on is "": it is one of mcp.request, mcp.response`},
		{`{"on":"mcp"}`, `on is "mcp"`},
		{`{"tool":"x"} {}`, "event: "},
		{`{"tool":"x","tool":"y"}`, "event: "},
		{`{"tool":"x","argument":{}}`, `"argument" is not known: there are on vm profile session principal process method server tool name arguments schema result is_error operation`},
		{`{"tool":1}`, `event: "tool" takes no number`},
		{`{"on":"mcp.request","tool":"fs.read","path":"/workspace/x"}`, `"path" means nothing in the event mcp.request, which has process method server tool name arguments schema`},
		{`{"tool":"x","command":"rm"}`, `"command" means nothing`},
		{`{"tool":"x","host":""}`, `"host" means nothing`},
		{`{"on":"mcp.request","server":"s"}`, "mcp.request needs tool or name or method"},
		{`{"on":"mcp.ask","server":"s"}`, "mcp.ask needs method"},
		{`{"on":"file","operation":"read"}`, "file needs path"},
		{`{"on":"file","path":"x"}`, "file needs operation"},
		{`{"on":"file","operation":"read","path":"/workspace/keys/../a"}`, `decided on as "/workspace/a", if at all`},
		{`{"on":"exec","args":["x"]}`, "exec needs command"},
		{`{"on":"http","port":443}`, "http needs host"},
		{`{"tool":"everything__echo"}`, `say it as "name", or say server "everything" and tool "echo"`},
	} {
		if e, err := ParseEvent([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %+v, %v", tt.text, e, err)
		}
	}
}

func TestTry(t *testing.T) {
	p, err := New(Config{Rules: []Rule{{
		ID: "security.rules.mcp.writes", Layer: "user", On: OnRequest, Decision: Block, Priority: PriorityUsual, Reason: "no writing",
		If: `mcp.request.tool_name == "write" && mcp.request.arguments.path.startsWith("/etc/")`,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := ParseEvent([]byte(`{"server":"s","tool":"write","arguments":{"path":"/etc/passwd"}}`))
	if err != nil {
		t.Fatal(err)
	}
	got := p.Try(e)
	got.Micros = 0
	if want := (Trial{Decision: Block, Rule: "security.rules.mcp.writes", Layer: "user", Reason: "no writing", Class: Feedback, Code: 2001, Violation: "ToolExplicitlyDenied"}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	e.Args = json.RawMessage(`{"path":"/tmp/x"}`)
	if got := p.Try(e); got.Decision != Allow || got.Rule != "default" || got.Code != 0 || got.Micros <= 0 {
		t.Errorf("got %+v", got)
	}
}

// What only is observed is told with what would be decided.
func TestTryObserved(t *testing.T) {
	p, err := New(Config{Mode: Observe, Deny: []string{"write"}, DenyLayer: "user"})
	if err != nil {
		t.Fatal(err)
	}
	e, err := ParseEvent([]byte(`{"tool":"write"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Try(e); got.Decision != Allow || got.Would != Block {
		t.Errorf("got %+v", got)
	}
}

// A tool is hidden only where no arguments let it be called.
func TestHides(t *testing.T) {
	rule := func(on, condition, decision string, priority int) Rule {
		return Rule{ID: "r", Layer: LayerCorp, On: on, If: condition, Decision: decision, Priority: priority}
	}
	const sometimes = `mcp.request.arguments.path == "x"`
	for _, tt := range []struct {
		what  string
		c     Config
		hides bool
	}{
		{"nothing", Config{}, false},
		{"a blocked tool", Config{Lists: []List{{Server: "s", Blocked: []string{"t"}}}}, true},
		{"a tool that is not allowed", Config{Lists: []List{{Server: "s", Allowed: []string{"u"}}}}, true},
		{"another server's", Config{Lists: []List{{Server: "o", Blocked: []string{"t"}}}}, false},
		{"the default", Config{Default: Block}, true},
		{"a default that asks", Config{Default: Ask}, false},
		{"a condition that blocks", Config{Rules: []Rule{rule(OnRequest, sometimes, Block, PriorityUsual)}}, false},
		{"a condition that allows", Config{Default: Block, Rules: []Rule{rule(OnRequest, sometimes, Allow, PriorityUsual)}}, false},
		{"a condition that asks before a list", Config{
			Lists: []List{{Server: "s", Blocked: []string{"t"}}},
			Rules: []Rule{rule(OnRequest, sometimes, Ask, -5)},
		}, false},
		{"a rule without a condition", Config{Rules: []Rule{rule(OnRequest, "", Block, PriorityUsual)}}, true},
		{"a rule for others", Config{Rules: []Rule{rule(OnHTTP, "", Block, PriorityUsual)}}, false},
	} {
		p, err := New(tt.c)
		if err != nil {
			t.Fatal(err)
		}
		d := p.Decide(&Event{On: OnRequest, Method: "tools/call", Server: "s", Tool: "t", Name: "s__t", Known: true, Listing: true})
		if got := d.Action == Block; got != tt.hides {
			t.Errorf("%s: hides %v", tt.what, got)
		}
	}
}

func FuzzParseEvent(f *testing.F) {
	for _, s := range []string{
		`{"server":"s","tool":"t","arguments":{"a":[1,null,"x"]}}`, `{"on":"http","host":"a","port":-1}`,
		`{"on":"mcp.response","tool":"t","result":{"content":[]},"is_error":true}`, `{"on":"exec","command":"a","args":["b"]}`,
	} {
		f.Add([]byte(s))
	}
	p, err := New(Config{Default: Ask, Rules: []Rule{{ID: "r", On: OnRequest, If: `mcp.request.arguments.a.size() > 2`, Decision: Allow, Priority: PriorityUsual}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := ParseEvent(text)
		if err != nil {
			return
		}
		if got := p.Try(e); got.Decision == "" || got.Rule == "" {
			t.Errorf("%q: %+v", text, got)
		}
		if _, err := json.Marshal(e); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}

// A request to the proxy is tried by the hosts first, as the proxy does.
func TestTryHosts(t *testing.T) {
	hosts, err := guard.ParseHosts([]string{"pypi.org:443", "*.example"}, []string{"bad.example"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Config{Hosts: hosts, Rules: []Rule{{ID: "r.no", On: OnHTTP, If: `http.host == "no.example"`, Decision: Block, Priority: PriorityUsual}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ event, decision, rule string }{
		{`"host":"evil.org","port":443`, Block, "default"},
		{`"host":"PyPI.org","port":443`, Allow, "allow pypi.org:443"},
		{`"host":"pypi.org"`, Allow, "allow pypi.org:443"},
		{`"host":"pypi.org","scheme":"http"`, Block, "port"},
		{`"host":"bad.example","port":443`, Block, "block bad.example"},
		{`"host":"a.example","port":80`, Allow, "allow *.example"},
		{`"host":"no.example","port":80`, Block, "r.no"},
		{`"host":"a.example","port":65979`, Block, "request"},
		{`"host":"0x7f.1","port":80`, Block, "request"},
	} {
		e, err := ParseEvent([]byte(`{"on":"http",` + tt.event + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Try(e); got.Decision != tt.decision || got.Rule != tt.rule {
			t.Errorf("%s: %+v", tt.event, got)
		}
	}
}

// A request to the proxy is tried as the proxy reads it.
func TestTryHTTP(t *testing.T) {
	hosts, err := guard.ParseHosts([]string{"a.example"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Config{Hosts: hosts, Rules: []Rule{
		{ID: "admin", On: OnHTTP, If: `http.path.startsWith("/admin")`, Decision: Block, Priority: 1},
		{ID: "read", On: OnHTTP, If: `!(http.method in ["GET", "CONNECT"])`, Decision: Block, Priority: 2},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for event, want := range map[string]string{
		`{"on":"http","host":"a.example","scheme":"http","method":"GET","path":"//admin"}`:     "admin",
		`{"on":"http","host":"a.example","scheme":"http","path":"/%61dmin"}`:                   "admin",
		`{"on":"http","host":"a.example","scheme":"http","method":"GET","path":"/x/../admin"}`: "request",
		`{"on":"http","host":"a.example"}`:                                                     "allow a.example",
		`{"on":"http","host":"a.example","scheme":"http"}`:                                     "allow a.example",
		`{"on":"http","host":"a.example","method":"POST"}`:                                     "read",
		`{"on":"http","host":"b.example"}`:                                                     "default",
	} {
		e, err := ParseEvent([]byte(event))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Try(e); got.Rule != want {
			t.Errorf("%s: %+v, want %s", event, got, want)
		}
	}
}
