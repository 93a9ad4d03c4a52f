package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"

	"hutch/mcpd/dotdot"
)

// compiled returns the policy of a config.
func compiled(t testing.TB, c Config) *Policy {
	t.Helper()
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// toolCall is the event of a call of a tool that hutch has itself or, if the
// name has one, a server.
func toolCall(tool, args string) *Event {
	e := &Event{On: OnRequest, Method: "tools/call", Name: tool, Tool: tool, Known: true, Args: json.RawMessage(args)}
	if server, own, ok := strings.Cut(tool, "__"); ok {
		e.Server, e.Tool = server, own
	}
	return e
}

// A try is a call, and the violation that it is refused for; "": it is allowed.
type try struct{ tool, args, violation, reason string }

func (tr try) on(t *testing.T, p *Policy) {
	t.Helper()
	d := p.Decide(toolCall(tr.tool, tr.args))
	got := ""
	if d.Code != nil {
		got = d.Code.Violation
	}
	if got != tr.violation || !strings.Contains(d.Reason, tr.reason) || (d.Action == Block) != (tr.violation != "") {
		t.Errorf("%s %s\n got %s: %s %q\nwant %s %q", tr.tool, tr.args, d.Action, got, d.Reason, tr.violation, tr.reason)
	}
}

func TestDeny(t *testing.T) {
	p := compiled(t, Config{Deny: []string{"fs.delete", "shell.*", "github__delete_*", "push", "fs.*:/etc/*", "fs.list:/", "db:drop"}})
	for _, tr := range []try{
		{"fs.delete", `{"path":"a"}`, "ToolExplicitlyDenied", `tool "fs.delete" is denied by "fs.delete"`},
		{"fs.delete2", `{}`, "", ""},
		{"shell.run", ``, "ToolExplicitlyDenied", ""},
		{"shellx.run", ``, "", ""},
		{"github__delete_repo", ``, "ToolExplicitlyDenied", ""},
		{"github__push", ``, "ToolExplicitlyDenied", ""}, // by its server's name for it
		{"db:drop", ``, "ToolExplicitlyDenied", ""},
		{"fs.read", `{"path":"/etc/passwd"}`, "ToolExplicitlyDenied", `with path "/etc/passwd" is denied by "fs.*:/etc/*"`},
		{"fs.read", `{"path":"/etc"}`, "ToolExplicitlyDenied", ""},
		{"fs.read", `{"path":"/etcetera"}`, "", ""},
		{"fs.read", `{"path":"etc/passwd"}`, "", ""}, // of the workspace
		{"fs.read", `{"path":"//etc/./passwd"}`, "ToolExplicitlyDenied", ""},
		{"fs.read", `{"path":"%2fetc/passwd"}`, "ToolExplicitlyDenied", ""},
		{"fs.read", `{"path":"/workspace/../etc/passwd"}`, "PathTraversalAttempt", ""},
		{"fs.read", `{"path":"a","path":"/etc/x"}`, "ToolNotAllowed", "ambiguous member"},
		{"fs.read", `{`, "ToolNotAllowed", "the arguments cannot be read"},
		{"fs.list", `{}`, "ToolExplicitlyDenied", ""},
	} {
		tr.on(t, p)
	}
	for text, want := range map[string]string{
		"": "empty", "f*": "means nothing", "fs.*x": "means nothing", "**": "means nothing", ":/etc": "empty",
		" fs.read": "no tool's name has", "fs.read :/etc": "no tool's name has", "fs.read(/etc)": "no tool's name has", "fs.read,fs.write": "no tool's name has", "!fs.read": "no tool's name has",
		"fs.read:etc": "from the root", "file_read:.env": "from the root",
		"fs.read:etc/*": "from the root", "fs.read:/etc*": "means nothing", "fs.read:/a/*/b": "/a/*/b", "fs.read:/a/../b": "..",
	} {
		_, err := New(Config{Deny: []string{text}})
		var f *Fault
		if !errors.As(err, &f) || f.Of != "security" || f.Key != "deny" || !strings.Contains(f.Text, want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, e := range []*Event{{On: OnFile, Operation: "delete", Path: "a"}, {On: OnFile, Operation: "read", Path: "/etc/x"}} {
		if d := p.Decide(e); d.Action != Block {
			t.Errorf("%+v: %+v", e, d)
		}
	}
}

// TestTwins has who says one name of a tool of hutch's own mean the others, and no tool of
// another server.
func TestTwins(t *testing.T) {
	p := compiled(t, Config{Deny: []string{"file_read", "fs.list:/workspace/.git/*"}, Capabilities: []Capability{
		{Name: "write", Tools: []string{"fs.write"}, Paths: []string{"/workspace/src"}}, {Name: "list", Tools: []string{"dir_list"}},
		{Name: "other", Tools: []string{"evil__file_read"}},
	}})
	for _, tr := range []try{
		{"fs.read", `{"path":"a"}`, "ToolExplicitlyDenied", `tool "fs.read" is denied by "file_read"`},
		{"file_list", `{"path":".git/x"}`, "ToolExplicitlyDenied", ""},
		{"file_list", `{"path":"src"}`, "", ""},
		{"file_write", `{"path":"src/a","content":""}`, "", ""},
		{"file_write", `{"path":"a","content":""}`, "PathOutsideBoundary", ""},
		{"evil__fs.read", `{"path":"a"}`, "ToolNotAllowed", ""},
	} {
		tr.on(t, p)
	}
}

// TestIsTwin has each set have one tool for each thing.
func TestIsTwin(t *testing.T) {
	for tool, want := range map[string]string{"fs.read": "file", "file_read": "fs", "file_list": "fs", "fs.list": "file", "fs.edit": "", "dir_create": "", "evil__file_read": ""} {
		for _, set := range []string{"", "fs", "file"} {
			if got := IsTwin(tool, set); got != (set == want && set != "") {
				t.Errorf("%s of %q: %v", tool, set, got)
			}
		}
	}
}

func TestCapabilities(t *testing.T) {
	p := compiled(t, Config{Deny: []string{"fs.delete"}, Capabilities: []Capability{
		{Name: "files", Tools: []string{"fs.*"}, Paths: []string{"/workspace"}},
		{Name: "readme", Tools: []string{"fs.read"}, Paths: []string{"/usr/share/doc"}},
		{Name: "commands", Tools: []string{"cmd.run", "build__run"}, Commands: []string{"ls", "/opt/bin"},
			Subcommands: map[string][]string{"cargo": {"build", "test"}, "python": {"/workspace", "-m"}, "git": {}}},
		{Name: "web", Tools: []string{"web.fetch"}, Domains: []string{"example.com", "*.wikipedia.org", "127.0.0.1:8080"}},
		{Name: "echo", Tools: []string{"local__echo"}},
		{Name: "none", Tools: []string{"shut"}, Paths: []string{}},
	}})
	const traversal, outside, domain, command = "PathTraversalAttempt", "PathOutsideBoundary", "DomainNotAllowed", "CommandNotAllowed"
	const missing, tool, sub = "MissingRequiredArgument", "ToolNotAllowed", "SubcommandNotAllowed"
	for _, tr := range []try{
		{"local__echo", `{"anything":["goes"]}`, "", ""},
		{"fsx.y", `{"path":"a"}`, tool, `no capability is for tool "fsx.y"`},
		{"fs", `{"path":"a"}`, tool, ""},
		{"evil__fs.read", `{"path":"a"}`, tool, `no capability is for tool "evil__fs.read"`},
		{"evil__file_read", `{"path":"a"}`, tool, ""},
		{"fs.read", `{"path":"a","fileName":"/etc/x"}`, outside, ""},
		{"fs.read", `{"path":"a","file_name":"/etc/x"}`, outside, ""},
		{"fs.read", `{"path":"a","outfile":"/etc/x"}`, outside, ""},
		{"fs.read", `{"path":"a","output":"/etc/x"}`, outside, ""},
		{"fs.read", `{"path":"a","location":"/etc/x"}`, outside, ""},
		{"fs.read", `{"path":"a","output":"json","profile":"x"}`, "", ""},
		{"fs.read", `{"path":"a","uri":"/etc/x"}`, outside, ""},
		{"fs.many", `{"paths":"a:/etc/x"}`, outside, "several paths in one text"},
		{"fs.many", `{"paths":"a,/etc/x"}`, outside, "several paths"},
		{"fs.many", `{"paths":["a,b"]}`, "", ""},
		{"fs.delete", `{"path":"a"}`, "ToolExplicitlyDenied", ""},
		{"shut", `{"path":"a"}`, outside, "nothing"},

		{"fs.read", `{"path":"a"}`, "", ""},
		{"fs.read", `{"path":""}`, "", ""},
		{"fs.read", `{"path":"/workspace"}`, "", ""},
		{"fs.read", `{"path":"/usr/share/doc/x"}`, "", ""},
		{"fs.write", `{"path":"/usr/share/doc/x","content":"/etc/passwd"}`, outside, `path "/usr/share/doc/x" of path is outside of /workspace`},
		{"fs.read", `{"path":"/etc/passwd"}`, outside, "/usr/share/doc"}, // the nearest's reason
		{"fs.read", `{"path":"/workspacex/a"}`, outside, ""},
		{"fs.read", `{}`, missing, "called path"},
		{"fs.read", ``, missing, ""},
		{"fs.read", `{"path":null}`, missing, ""},
		{"fs.read", `{"PATH":"/etc/x"}`, outside, ""},
		{"fs.read", `{"path":"/etc/x","path":"a"}`, tool, "ambiguous member"},
		{"fs.read", `{"path":"a"} {}`, tool, "cannot be read"},
		{"fs.read", `["a"]`, tool, "no object"},
		{"fs.read", `{"x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, tool, "nested deeper"},
		{"fs.edit", `{"path":"a","edits":[{"path":"b"},{"path":"/etc/x"}]}`, outside, "edits[].path"},
		{"fs.move", `{"from":"a","to":"/etc/x"}`, outside, " of to "},
		{"fs.move", `{"old_path":"a","newPath":"/etc/x"}`, outside, ""},
		{"fs.copy", `{"source":"/etc/x","destination":"a"}`, outside, ""},
		{"fs.many", `{"paths":["a","/etc/x"]}`, outside, "paths[]"},
		{"fs.many", `{"files":[{"path":"a","content":"two\nlines"}]}`, "", ""},
		{"fs.many", `{"files":[{"path":"/etc/x","content":"x"}]}`, outside, ""},
		{"fs.many", `{"files":{"src/a.go":"two\nlines"}}`, "", ""},
		{"fs.many", `{"files":{"/etc/x":"two"}}`, outside, ""},
		{"fs.read", `{"file_path":"/etc/x","path":"a"}`, outside, ""},
		{"fs.write", `{"path":"a","uri":"file:///etc/passwd"}`, outside, "is a URL"},
		{"fs.read", `{"path":"file:///etc/passwd"}`, outside, "is a URL"},
		{"fs.read", `{"path":"~/.ssh/id_rsa"}`, outside, "starts with ~"},
		{"fs.read", `{"path":"a\u0000b"}`, outside, "NUL"},
		{"fs.read", `{"path":"a%00b"}`, outside, "NUL"},
		{"fs.read", `{"path":"a\\b"}`, outside, "backslash"},
		{"fs.read", `{"path":"100%.txt"}`, "", ""},
		{"fs.read", `{"path":"..a/b..c/..."}`, "", ""},
		{"fs.read", `{"path":"/workspace/../etc/passwd"}`, traversal, "has .. in it"},
		{"fs.read", `{"path":"a/.."}`, traversal, ""},
		{"fs.read", `{"path":"\u002e\u002e/x"}`, traversal, ""},
		{"fs.read", `{"path":"..\\x"}`, traversal, ""},
		{"fs.read", `{"path":"%2e%2e/x"}`, traversal, ""},
		{"fs.read", `{"path":"%2E./x"}`, traversal, ""},
		{"fs.read", `{"path":"%252e%252e%252fx"}`, traversal, ""},
		{"fs.read", `{"path":"..%2fx"}`, traversal, ""},
		{"fs.read", `{"path":"..%5cx"}`, traversal, ""},
		{"fs.read", `{"path":"%u002e%u002e/x"}`, traversal, ""},
		{"fs.read", `{"path":"%c0%ae%c0%ae/x"}`, traversal, ""},
		{"fs.read", `{"path":"a%c0%af..%c0%afx"}`, traversal, ""},
		{"fs.read", `{"path":"．．/x"}`, traversal, ""},
		{"fs.read", `{"path":"..／x"}`, traversal, ""},
		{"fs.read", `{"path":"..∕x"}`, traversal, ""},
		{"fs.read", `{"path":".\u200b./x"}`, traversal, ""},
		{"fs.read", `{"path":"..;x/y"}`, traversal, ""},
		{"fs.read", `{"path":".. /y"}`, traversal, ""},
		{"fs.read", `{"path":"..\u0000/y"}`, traversal, ""},
		{"fs.read", `{"path":"` + strings.Repeat("%25", 9) + `2e"}`, "", ""},
		{"fs.read", `{"path":"%` + strings.Repeat("25", 9) + `2e"}`, outside, "too often"},
		{"fs.write", `{"path":"／etc/passwd"}`, outside, `"/etc/passwd"`},

		{"web.fetch", `{"url":"https://example.com/a?b#c"}`, "", ""},
		{"web.fetch", `{"url":"https://EXAMPLE.com.:443/"}`, "", ""},
		{"web.fetch", `{"url":"https://ｅｘａｍｐｌｅ。com/"}`, "", ""}, // what browsers read
		{"web.fetch", `{"url":"https://de.wikipedia.org/"}`, "", ""},
		{"web.fetch", `{"url":"http://127.0.0.1:8080/"}`, "", ""},
		{"web.fetch", `{"host":"example.com"}`, "", ""},
		{"web.fetch", `{"urls":["https://example.com/","https://a.wikipedia.org"]}`, "", ""},
		{"web.fetch", `{"url":"http://127.0.0.1/"}`, domain, ""},
		{"web.fetch", `{"url":"https://example.com/","note":" http://evil.com "}`, domain, ""},
		{"web.fetch", `{"url":"https://example.com/","proxy":"evil.com"}`, domain, ""},
		{"web.fetch", `{"url":"https://example.com/","server":" evil "}`, domain, ""},
		{"web.fetch", `{"url":"https://example.com/","address":"12 Main Street"}`, "", ""},
		{"web.fetch", `{"url":"https://example.com:22/"}`, domain, "example.com:22"},
		{"web.fetch", `{"url":"https://evilexample.com/"}`, domain, `host "evilexample.com:443" of url is not among example.com`},
		{"web.fetch", `{"url":"https://www.example.com/"}`, domain, ""},
		{"web.fetch", `{"url":"https://wikipedia.org/"}`, domain, ""},
		{"web.fetch", `{"url":"https://example.com.evil.com/"}`, domain, ""},
		{"web.fetch", `{"url":"https://ехample.com/"}`, domain, "xn--"}, // Cyrillic
		{"web.fetch", `{"url":"https://example.com@evil.com/"}`, domain, "user's name"},
		{"web.fetch", `{"url":"https://evil.com\\@example.com/"}`, domain, ""},
		{"web.fetch", `{"url":"https://evil.com\\.example.com/"}`, domain, ""},
		{"web.fetch", `{"url":"https:evil.com"}`, domain, ""},
		{"web.fetch", `{"url":"https:///evil.com"}`, domain, ""},
		{"web.fetch", `{"url":"//evil.com/"}`, domain, ""},
		{"web.fetch", `{"url":" https://evil.com/"}`, domain, ""},
		{"web.fetch", `{"url":"https://exam\tple.com/"}`, domain, ""},
		{"web.fetch", `{"url":"http://2130706433/"}`, domain, ""},
		{"web.fetch", `{"url":"http://0x7f000001:8080/"}`, domain, ""},
		{"web.fetch", `{"url":"http://[::ffff:127.0.0.1]:8080/"}`, "", ""}, // the same address
		{"web.fetch", `{"url":"http://[::1]:8080/"}`, domain, ""},
		{"web.fetch", `{"url":"http://[fe80::1%25eth0]/"}`, domain, ""},
		{"web.fetch", `{"url":"javascript:alert(1)"}`, domain, ""},
		{"web.fetch", `{}`, missing, "called url"},
		{"web.fetch", `{"url":"https://example.com/","mirror":"https://evil.com/"}`, domain, "of mirror"},
		{"web.fetch", `{"url":"https://example.com/","x":"http:/evil.com"}`, domain, "x"},
		{"web.fetch", `{"url":"https://example.com/","x":"http:\\\\evil.com"}`, domain, "x"},
		{"web.fetch", `{"url":"https://example.com/","x":"HTTP:evil.com"}`, domain, "x"},
		{"web.fetch", `{"url":"https://example.com/","x":"http:///evil.com"}`, domain, "x"},
		{"web.fetch", `{"url":"https://example.com/","x":"ht\ntp://evil.com/"}`, domain, "x"},
		{"web.fetch", `{"url":"https://example.com/","x":"http:/\t/evil\r.com/"}`, domain, "x"},
		{"web.fetch", `{"url":"https://example.com/","x":"\u0001 \u001fhttp://evil.com/"}`, domain, "x"},
		{"web.fetch", `{"url":"https://example.com/","x":"http://evil.com/a b"}`, domain, "of x"},
		{"web.fetch", `{"url":"https://example.com/","x":["//evil.com/"]}`, domain, "x"},
		{"web.fetch", `{"url":"https://example.com/","x":"\\/evil.com"}`, domain, "x"},
		{"web.fetch", `{"url":"https://example.com/","x":"http:@evil.com"}`, domain, "x"},
		{"web.fetch", `{"url":"https://example.com/","address":"http://evil.com/a b"}`, domain, "of address"},
		{"web.fetch", `{"url":"https://example.com/","address":"1 Main Street"}`, "", ""},
		{"web.fetch", `{"url":"https://example.com/","x":"http: see https://evil.com/"}`, "", ""},
		{"web.fetch", `{"url":"https://example.com/","x":"// a comment","y":"https","z":"a//b"}`, "", ""},
		{"web.fetch", `{"url":"https://example.com/","x":"https://example.com/a b"}`, "", ""},
		{"web.fetch", `{"url":"https://example.com/","options":{"proxy":{"href":"http://evil.com"}}}`, domain, "options.proxy.href"},
		{"web.fetch", `{"url":"https://example.com/","url":"https://evil.com/"}`, tool, "ambiguous member"},

		{"cmd.run", `{"command":"ls","args":["-l","; not a shell"]}`, "", ""},
		{"build__run", `{"command":"ls","args":["-l",";","curl"]}`, command, "means something to a shell"},
		{"cmd.run", `{"command":"ls -l /"}`, "", ""},
		{"cmd.run", `{"command":"ls; curl evil"}`, command, "means something to a shell"},
		{"cmd.run", `{"command":"ls\ncurl evil"}`, command, "means something to a shell"},
		{"cmd.run", `{"command":"l's'"}`, command, ""},
		{"cmd.run", `{"command":"./ls"}`, command, ""},
		{"cmd.run", `{"command":"/bin/ls"}`, command, ""},
		{"cmd.run", `{"command":"/opt/bin/tool"}`, "", ""},
		{"cmd.run", `{"command":"/opt/bin/../../bin/sh"}`, command, ""},
		{"cmd.run", `{"command":"/opt/binx/tool"}`, command, ""},
		{"cmd.run", `{"command":"lsof"}`, command, `command "lsof" is not among ls, /opt/bin, cargo, git, python`},
		{"cmd.run", `{"command":"X=1 ls"}`, command, ""},
		{"cmd.run", `{"command":""}`, missing, ""},
		{"cmd.run", `{"command":["cargo","build"]}`, "", ""},
		{"cmd.run", `{"argv":["cargo","build"]}`, "", ""},
		{"cmd.run", `{"argv":["curl","x"]}`, command, ""},
		{"cmd.run", `{"command":"cargo build"}`, "", ""},
		{"cmd.run", `{"command":"cargo build --release","args":["x"]}`, "", ""},
		{"cmd.run", `{"command":"cargo","args":["publish"]}`, sub, `first argument "publish" of command "cargo" is not among build, test`},
		{"cmd.run", `{"command":"cargo","args":["build ; curl evil"]}`, sub, ""},
		{"cmd.run", `{"command":"cargo"}`, sub, "no first argument"},
		{"cmd.run", `{"command":"git push --force"}`, "", ""},
		{"cmd.run", `{"command":"git","args":[]}`, "", ""},
		{"cmd.run", `{"command":"python /workspace/x.py"}`, "", ""},
		{"cmd.run", `{"command":"python /workspacex/x.py"}`, sub, ""},
		{"cmd.run", `{"command":"python","args":["/workspace/../x.py"]}`, sub, ""},
		{"cmd.run", `{"command":"python","args":["-m","http.server"]}`, "", ""},
		{"cmd.run", `{"command":"python","args":["-c","x"]}`, sub, ""},
		{"cmd.run", `{"command":"python","args":["x.py"]}`, sub, ""},
		{"cmd.run", `{"command":7}`, command, "no text"},
		{"cmd.run", `{"command":"ls","command":"curl"}`, tool, "ambiguous member"},
		{"cmd.run", `{"command":"cargo","args":["build"],"Args":["publish"]}`, tool, `ambiguous member "Args"`},
		{"cmd.run", `{"command":"cargo","args":["build"],"argſ":["publish"]}`, tool, `ambiguous member`},
		{"cmd.run", `{"command":"cargo","args":["build"],"ar\u0067\u017f":["publish"]}`, tool, `ambiguous member`},
		{"cmd.run", `{"steps":[{"command":"cargo","args":["build"],"Args":["publish"]}]}`, tool, `ambiguous member "Args"`},
		{"cmd.run", `{"command":"cargo","args":["build"],"argv":["publish"]}`, sub, "publish"},
		{"cmd.run", `{"command":"cargo","args":["build"],"argv":[]}`, sub, "no first argument"},
		{"cmd.run", `{"command":"cargo","args":["build"],"argv":["test"]}`, "", ""},
		{"cmd.run", `{"command":"cargo build","env":{"A":"1","a":"2"}}`, tool, `ambiguous member "a"`},
		{"fs.read", `{"path":"a","files":["b"],"fileſ":["/etc/passwd"]}`, tool, "ambiguous member"},
		{"fs.read", `{"path":"a","\ud800":1}`, tool, "half a surrogate pair"},
		{"web.fetch", `{"url":"https://example.com/","options":{"proxy":"example.com","Proxy":"evil.com"}}`, tool, `ambiguous member "Proxy"`},
		{"local__echo", `{"a":1,"A":2}`, "", ""}, // nothing looks at it
		{"cmd.run", `{"commands":["ls","curl evil"]}`, command, "curl"},
		{"cmd.run", `{"steps":[{"command":"ls"},{"command":"curl"}]}`, command, "curl"},
		{"cmd.run", `{}`, missing, "called command"},
	} {
		tr.on(t, p)
	}
	for _, tt := range []struct {
		event     Event
		violation string
	}{
		{Event{On: OnExec, Command: "cargo", Words: []string{"test", "a b; c"}}, ""},
		{Event{On: OnExec, Command: "cargo", Words: []string{"publish"}}, sub},
		{Event{On: OnExec, Command: "curl"}, command},
		{Event{On: OnFile, Operation: "write", Path: "a"}, ""},
		{Event{On: OnFile, Operation: "write", Path: "/etc/x"}, outside},
		{Event{On: OnFile, Operation: "write", Path: "../x"}, traversal},
		{Event{On: OnHTTP, Method: "GET", Host: "evil.com", Port: 443}, ""}, // no capability is for it
		{Event{On: OnRequest, Method: "prompts/get", Name: "x"}, ""},
		{Event{On: OnAsk, Method: "roots/list"}, ""},
	} {
		d := p.Decide(&tt.event)
		if (tt.violation == "") != (d.Code == nil) || d.Code != nil && d.Code.Violation != tt.violation {
			t.Errorf("%+v: %+v", tt.event, d)
		}
	}
}

// What the proxy is asked for is constrained by capabilities for http.request.
func TestCapabilityOfProxy(t *testing.T) {
	p := compiled(t, Config{Capabilities: []Capability{{Name: "web", Tools: []string{"http.*"}, Domains: []string{"example.com", "x.org:8443"}, Rate: "3/1h"}}})
	for _, tt := range []struct {
		host string
		port int
		code *Code
	}{
		{"example.com", 443, nil}, {"EXAMPLE.com.", 80, nil}, {"x.org", 8443, nil}, {"example.com", 443, RateLimitExceeded},
		{"evilexample.com", 443, DomainNotAllowed}, {"example.com", 22, DomainNotAllowed}, {"x.org", 443, DomainNotAllowed}, {"a b", 443, DomainNotAllowed},
	} {
		if d := p.Decide(&Event{On: OnHTTP, Host: tt.host, Port: tt.port}); d.Code != tt.code {
			t.Errorf("%s:%d: %+v", tt.host, tt.port, d)
		}
	}
}

func TestCapabilityFaults(t *testing.T) {
	for _, tt := range []struct {
		says Capability
		key  string
		want string
	}{
		{Capability{}, "tools", "missing"},
		{Capability{Tools: []string{"f*"}}, "tools", "means nothing"},
		{Capability{Tools: []string{""}}, "tools", "empty"},
		{Capability{Tools: []string{"a"}, Paths: []string{"/x/*"}}, "paths", "a folder"},
		{Capability{Tools: []string{"a"}, Paths: []string{""}}, "paths", "a folder"},
		{Capability{Tools: []string{"a"}, Paths: []string{"/x/../y"}}, "paths", ".."},
		{Capability{Tools: []string{"a"}, Paths: []string{"/x%20y"}}, "paths", "plainly"},
		{Capability{Tools: []string{"a"}, Domains: []string{"https://x"}}, "domains", "https://x"},
		{Capability{Tools: []string{"a"}, Domains: []string{"*.*"}}, "domains", "pypi.org"},
		{Capability{Tools: []string{"a"}, Commands: []string{"git push"}}, "commands", "blank"},
		{Capability{Tools: []string{"a"}, Commands: []string{"*"}}, "commands", "means nothing"},
		{Capability{Tools: []string{"a"}, Subcommands: map[string][]string{"": nil}}, "subcommands", "empty"},
		{Capability{Tools: []string{"a"}, Subcommands: map[string][]string{"a": {"/x/.."}}}, "subcommands", ".."},
		{Capability{Tools: []string{"a"}, Rate: "20"}, "rate", "20/1m"},
		{Capability{Tools: []string{"a"}, Rate: "0/1m"}, "rate", "20/1m"},
		{Capability{Tools: []string{"a"}, Rate: "-1/1m"}, "rate", "20/1m"},
		{Capability{Tools: []string{"a"}, Rate: "1/0s"}, "rate", "20/1m"},
	} {
		tt.says.Name = "security.capabilities.x"
		_, err := New(Config{Capabilities: []Capability{tt.says}})
		var f *Fault
		if !errors.As(err, &f) || f.Of != tt.says.Name || f.Key != tt.key || !strings.Contains(f.Text, tt.want) {
			t.Errorf("%+v: %v", tt.says, err)
		}
	}
}

// What has too many values is not decoded, where a check would.
func TestSize(t *testing.T) {
	e := toolCall("x", `{"path":"/workspace/a","l":[`+strings.Repeat("{},", maxValues)+`{}]}`)
	text := toolCall("x", `{"path":"/workspace/a","l":"`+strings.Repeat("[,", maxValues)+`"}`)
	for _, tt := range []struct {
		config  Config
		refuses bool
	}{
		{Config{}, false},
		{Config{Deny: []string{"y"}}, false},
		{Config{Deny: []string{"y:/etc"}}, true},
		{Config{Capabilities: []Capability{{Name: "c", Tools: []string{"x"}}}}, false},
		{Config{Capabilities: []Capability{{Name: "c", Tools: []string{"x"}, Paths: []string{"/workspace"}}}}, true},
		{Config{Mode: Observe, Rules: []Rule{{ID: "r", On: OnRequest, If: `has(mcp.request.arguments.z)`, Decision: Block, Priority: 1}}}, true},
		{Config{Cedar: Cedar{Policies: map[string]string{"p": "permit(principal, action, resource);"}}}, true},
	} {
		p := compiled(t, tt.config)
		if d := p.Decide(e); (d.Rule == ruleSize) != tt.refuses || (d.Action == Block) != tt.refuses {
			t.Errorf("%+v: %+v", tt.config, d)
		}
		if d := p.Decide(text); d.Action != Allow {
			t.Errorf("%+v, of a long text: %+v", tt.config, d)
		}
	}
}

func TestTextOfChecks(t *testing.T) {
	p := compiled(t, Config{
		Deny: []string{"fs.delete", "fs.*:/etc/*"},
		Capabilities: []Capability{
			{Name: "b", Tools: []string{"cmd.run"}, Commands: []string{"ls"}, Subcommands: map[string][]string{"git": {"log"}, "go": {}}, MaxConcurrent: 2},
			{Name: "a", Tools: []string{"fs.*"}, Paths: []string{"src"}, Domains: []string{}, Rate: "20/1m", MaxResponse: 7},
		},
		Cedar: Cedar{Policies: map[string]string{"all": "permit(principal, action, resource); permit(principal, action, resource);"}},
	})
	want := `security.deny block fs.delete fs.*:/etc/*
a allow fs.* paths /workspace/src domains rate 20/1m max_response 7
b allow cmd.run commands ls subcommands git log subcommands go max_concurrent 2
security.capabilities block what none of them allows
security.cedar.policies block what none of all all.2 permits, or one forbids
unregistered block
default allow
`
	if got := p.Text(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A policy that only observes lets pass what it would refuse, but not what corp
// refuses.
func TestObservedChecks(t *testing.T) {
	const nothing = `forbid(principal, action, resource);`
	for name, c := range map[string]Config{
		"deny":       {Deny: []string{"*"}},
		"capability": {Capabilities: []Capability{{Name: "a", Tools: []string{"a"}, Paths: []string{}}}},
		"none":       {Capabilities: []Capability{{Name: "b", Tools: []string{"b"}}}},
		"cedar":      {Cedar: Cedar{Policies: map[string]string{"x": nothing}}},
		"rate":       {Capabilities: []Capability{{Name: "a", Tools: []string{"a"}, Rate: "1/1h"}}},
	} {
		for _, layer := range []string{"user", LayerCorp} {
			c.Mode, c.DenyLayer, c.Cedar.Layer = Observe, layer, layer
			for i := range c.Capabilities {
				c.Capabilities[i].Layer = layer
			}
			p := compiled(t, c)
			p.Decide(toolCall("a", ""))
			d := p.Decide(toolCall("a", ""))
			if refused := d.Action == Block; refused != (layer == LayerCorp) || !refused && d.Would != Block {
				t.Errorf("%s of %s: %+v", name, layer, d)
			}
		}
	}
}

// The checks of a policy that has nothing of them allocate nothing.
func TestDecideAllocates(t *testing.T) {
	p := compiled(t, Config{})
	e := toolCall("a", `{"path":"x"}`)
	for _, c := range checks {
		if c.name == "rules" {
			continue // which are never none
		}
		if n := testing.AllocsPerRun(100, func() { c.do(p, e) }); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

func BenchmarkCapabilities(b *testing.B) {
	var list []Capability
	for i := range 100 {
		list = append(list, Capability{Name: fmt.Sprint(i), Tools: []string{fmt.Sprintf("t%d.*", i)}, Paths: []string{"/workspace"}})
	}
	p := compiled(b, Config{Capabilities: list})
	e := toolCall("t99.read", `{"path":"src/main.go"}`)
	b.ReportAllocs()
	for b.Loop() {
		p.Decide(e)
	}
}

// FuzzPath: what is allowed is below what was allowed, by every reading that
// percent-decoding gives.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"a", "/workspace/../x", "%2e%2e", "%252e./", "..\\", "．．", "%u002e%c0%ae", "~x", "a;b", "\u202e.."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if checkPath([]string{workspace}, named{"path", s}) != nil {
			return
		}
		stages, _ := dotdot.Stages(s)
		for _, s := range stages {
			if strings.HasPrefix(s, "/") && !below(path.Clean(s), workspace) {
				t.Fatalf("%q is outside", s)
			}
			for _, element := range strings.FieldsFunc(s, func(c rune) bool { return c == '/' || c == '\\' }) {
				if element == ".." {
					t.Fatalf("%q has ..", s)
				}
			}
			if strings.ContainsAny(s, "\\\x00") {
				t.Fatalf("%q", s)
			}
		}
	})
}

// FuzzArguments: whatever the arguments are, a path outside of the boundary is
// found under its name.
func FuzzArguments(f *testing.F) {
	p, err := New(Config{Capabilities: []Capability{{Name: "x", Tools: []string{"*"}, Paths: []string{"/workspace"}, Domains: []string{"example.com"}, Commands: []string{"ls"}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(`{"path":"a","url":"https://example.com","command":"ls"}`)
	f.Add(`{"files":[{"a.b":{"path":[]}}],"argv":["x"]}`)
	f.Fuzz(func(t *testing.T, s string) {
		p.Decide(toolCall("x", s))
		if !json.Valid([]byte(s)) || !strings.HasPrefix(strings.TrimSpace(s), "{") {
			return
		}
		e := toolCall("x", `{"y":`+s+`,"path":"/etc/x"}`)
		if d := p.Decide(e); d.Action != Block {
			t.Errorf("%s: %+v", e.Args, d)
		}
	})
}

// FuzzPlace: a place that is allowed is read back as itself.
func FuzzPlace(f *testing.F) {
	for _, s := range []string{"https://example.com/", "example.com:443", "https://a@b/", "http://[::1]:80", "https://evil.com\\@example.com"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, refused := placeOf(named{"url", s})
		if refused != nil {
			return
		}
		host := at.host
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		if again, refused := placeOf(named{"host", host}); refused != nil || again.host != at.host {
			t.Errorf("%q: %q, then %q: %v", s, at.host, again.host, refused)
		}
	})
}

// TestPathless has tools called without a path: hutch's own are about the
// workspace, and of a server's nobody knows what they are about.
func TestPathless(t *testing.T) {
	top := compiled(t, Config{Capabilities: []Capability{{Name: "files", Tools: []string{"fs.*", "github__fs.*"}, Paths: []string{"/workspace"}}}})
	below := compiled(t, Config{Capabilities: []Capability{{Name: "files", Tools: []string{"fs.*"}, Paths: []string{"/workspace/src"}}}})
	for _, tool := range []string{"fs.glob", "fs.grep", "fs.list"} {
		for _, args := range []string{"", `{}`, `{"pattern":"x"}`, `{"path":null}`} {
			try{tool, args, "", ""}.on(t, top)
			try{tool, args, "PathOutsideBoundary", "/workspace/src"}.on(t, below)
			try{"github__" + tool, args, "MissingRequiredArgument", "no argument is a path"}.on(t, top)
		}
		try{tool, `{"path":"/etc"}`, "PathOutsideBoundary", "/etc"}.on(t, top)
		try{tool, `{"path":"/etc","path":null}`, "ToolNotAllowed", "ambiguous member"}.on(t, top)
	}
	for _, tool := range []string{"fs.read", "fs.write", "fs.delete", "fs.move"} {
		try{tool, `{}`, "MissingRequiredArgument", "no argument is a path"}.on(t, top)
	}
	unknown := toolCall("fs.list", `{}`)
	unknown.Known = false
	if d := top.Decide(unknown); d.Action != Block {
		t.Errorf("a tool that there is not: %+v", d)
	}
}
