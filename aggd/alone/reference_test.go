package alone

import (
	"strings"
	"testing"
)

// The reference's page, statement by statement: what it says, and a dialogue that
// holds us to it. Of a line after < that ends in … the beginning counts, and … stands
// before what it is to have.
var statements = []struct{ says, dialogue string }{
	{"initialize is not modified: the client's revision, capabilities with tools alone, the server's name", `
		> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{"sampling":{}},"clientInfo":{"name":"claude-desktop","version":"1.0.0"}}}
		< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"aggd","version":…`},
	{"tools/list lists all tools from all child servers: each as its server has it, with its prefix", `
		> {"jsonrpc":"2.0","id":2,"method":"tools/list"}
		< {"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"fs-home:read_file","description":"Read contents of a file","inputSchema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}},{"name":"fs-home:text","inputSchema":{"type":"object"}},{"name":"fs-home:error","inputSchema":{"type":"object"}},{"name":"fs-work:read_file","inputSchema":{"type":"object"}},{"name":"fs-work:changes","inputSchema":{"type":"object"}},{"name":"my-server_v2:query","description":"Execute SQL query","inputSchema":{"type":"object"}},{"name":"my-server_v2:hello","inputSchema":{"type":"object"}}]}}`},
	{"a call is routed with the original name, arguments unchanged", `
		> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"fs-home:read_file","arguments":{"path":"/home/user/document.txt"}}}
		< …"params":{"name":"read_file","arguments":{"path":"/home/user/document.txt"}}…`},
	{"the result is forwarded unchanged", `
		> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"fs-home:text"}}
		< {"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"File contents here..."}]}}`},
	{"tool not found: invalid prefix", `
		> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"invalid:tool_name"}}
		< {"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":"Tool not found: invalid:tool_name"}}`},
	{"tool not found: the tool doesn't exist", `
		> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"fs-home:no_such"}}
		< {"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":"Tool not found: fs-home:no_such"}}`},
	{"missing prefix: the name doesn't contain the separator", `
		> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"tool_name"}}
		< {"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"Tool name must be prefixed with server key: tool_name"}}`},
	{"a child's error is forwarded unchanged", `
		> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"fs-home:error"}}
		< {"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"File not found: /invalid/path.txt","data":{"errno":-2,"code":"ENOENT"}}}`},
	{"the same server configured twice: each by its key, a process each", `
		> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"fs-work:read_file"}}
		< …"params":{"name":"read_file"}…`},
	{"a key with special characters is preserved", `
		> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"my-server_v2:query"}}
		< …"params":{"name":"query"}…`},
	{"children see a client without capabilities: no sampling", `
		> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"my-server_v2:hello"}}
		< …"result":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"hutch"…`},
	{"each message is a single line; ids are the client's", `
		> {"jsonrpc":"2.0","id":"a b","method":"ping"}
		< {"jsonrpc":"2.0","id":"a b","result":{}}`},
	{"no custom methods, no resources", `
		> {"jsonrpc":"2.0","id":4,"method":"resources/list"}
		< {"jsonrpc":"2.0","id":4,"error":{"code":-32601,"message":"Method not found: resources/list"}}`},
	{"no prompts", `
		> {"jsonrpc":"2.0","id":4,"method":"prompts/get","params":{"name":"fs-home:greet"}}
		< {"jsonrpc":"2.0","id":4,"error":{"code":-32601,"message":"Method not found: prompts/get"}}`},
	{"notifications: changes of the list are not broadcast", `
		> {"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"fs-work:changes"}}
		< {"jsonrpc":"2.0","id":5,"result":{}}
		> {"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"fs-work:new"}}
		< …"params":{"name":"new"}…
		> {"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"fs-work:changes"}}
		< {"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Tool not found: fs-work:changes"}}`},
}

func TestReference(t *testing.T) {
	fs := `{"name":"read_file","description":"Read contents of a file","inputSchema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}`
	c := open(t, Config{}, `{
		"fs-home": `+server(t, "well", fs+`,{"name":"text"},{"name":"error"}`)+`,
		"fs-work": `+server(t, "well", `{"name":"read_file"},{"name":"changes"}`)+`,
		"my-server_v2": `+server(t, "well", `{"name":"query","description":"Execute SQL query","inputSchema":{"type":"object"}},{"name":"hello"}`)+`}`)
	for _, s := range statements {
		t.Run(s.says, func(t *testing.T) {
			for line := range strings.Lines(strings.TrimSpace(s.dialogue)) {
				switch line = strings.TrimSpace(line); line[0] {
				case '>':
					c.put(line[2:])
				case '<':
					expect(t, c.next(), line[2:])
				}
			}
		})
	}
}

// expect holds a line against what is wanted, in which … stands for anything.
func expect(t *testing.T, got, want string) {
	t.Helper()
	rest := got
	for i, part := range strings.Split(want, "…") {
		at := strings.Index(rest, part)
		if at < 0 || i == 0 && at > 0 {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
		rest = rest[at+len(part):]
	}
	if !strings.HasSuffix(want, "…") && rest != "" {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

func TestSeparator(t *testing.T) {
	c := open(t, Config{Separator: "->"}, `{"a": `+server(t, "well", `{"name":"text"}`)+`}`)
	if got := c.call("a->text"); got != answers["text"] {
		t.Error(got)
	}
	if got := c.call("a:text"); !strings.Contains(got, "Tool name must be prefixed with server key: a:text") {
		t.Error(got)
	}
	for _, s := range []string{"", " ", "a\tb", "\x00", "\xff", strings.Repeat("x", 17)} {
		if CheckSeparator(s) == nil {
			t.Errorf("%q passes", s)
		}
	}
}
