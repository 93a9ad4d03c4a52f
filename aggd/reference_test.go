package aggd

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// A statement is something that the reference's page on its aggregator says, and
// how hutch is held to it: by a dialogue, by a function, or by a test elsewhere.
type statement struct {
	says     string // quoted, or shortened
	hutch    string // what hutch does otherwise or beyond it, and why
	dialogue dialogue
	check    func(*testing.T)
	held     string // "directory TestName"
}

// TestReference goes down the reference's page, statement by statement.
func TestReference(t *testing.T) {
	for _, s := range slices.Concat(why, architecture, lifecycle, protocol, operations, definitions, failures) {
		t.Run(s.says, func(t *testing.T) {
			switch {
			case s.dialogue != "":
				s.dialogue.hold(t, &streamableFake{})
			case s.check != nil:
				s.check(t)
			default:
				standsThere(t, s.held)
			}
		})
	}
}

// standsThere looks for the test that holds a statement in another package.
func standsThere(t *testing.T, held string) {
	dir, test, _ := strings.Cut(held, " ")
	files, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && bytes.Contains(text, []byte("\nfunc "+test+"(t ")) {
			return
		}
	}
	t.Errorf("no %s in %s", test, dir)
}

// What the page forbids, TestTakeover tries inside the processes.
var why = []statement{
	{says: "only network access: no VM, no session database, no filesystem, no service IPC",
		hutch: "status tells what of that this kernel cannot hold", held: "cmd/hutchd TestTakeover"},
	{says: "if it is compromised, the attacker cannot reach the VM, read telemetry, or modify files", held: "cmd/hutchd TestTakeover"},
	{says: "external servers require network access, bearer tokens, and custom HTTP headers", check: credentials},
	{says: "bearer tokens and API keys are the aggregator's",
		hutch: "hutchd reads them in profiles, as capsem-process does; those of stdio servers, which hutchd starts, the aggregator is never told",
		held:  "aggd/wire TestServerJSON"},
}

var architecture = []statement{
	{says: "the policy boundary is the endpoint, not the aggregator",
		hutch: "a definition may name allowed_tools, which the aggregator holds to too: TestAllowed",
		dialogue: `
			> {"id": 1, "method": "call_tool", "params": {"name": "github__not_listed", "arguments": {}}}
			< {"id": 1, "result": {"echo": {"name": "not_listed", "arguments": {}}}}`},
	{says: "calls are inspected, allowed or blocked before the aggregator receives them", held: "mcpd TestDenied"},
	{says: "an external server's traffic is outside the guest's path", check: func(t *testing.T) {
		if newHTTPPeer(definition{}, nil).client.Transport.(*http.Transport).Proxy != nil {
			t.Error("it would go through a proxy")
		}
	}},
	{says: "multiple endpoint sessions share one client", held: "mcpd TestFairness"},
	{says: "responses are routed back to pending callers", hutch: "answers come in any order", dialogue: `
			> {"id": 1, "method": "call_tool", "params": {"name": "github__hang"}}
			> {"id": 2, "method": "call_tool", "params": {"name": "github__x"}}
			< {"id": 2, "result": {"echo": {"name": "x"}}}

			> {"id": 3, "method": "cancel", "params": {"id": 1}}
			< {"id": 3, "ok": true}
			< {"id": 1, "error": "cancelled"}`},
	{says: "unified tool, resource and prompt catalogs with namespacing", dialogue: `
			> [{"name": "github", "url": "URL"}, {"name": "slack", "url": "URL"}]
			> {"id": 1, "method": "list_prompts"}
			> {"id": 2, "method": "list_resources"}
			> {"id": 3, "method": "list_tools"}
			< {"id": 1, "prompts": [{"namespaced_name": "github__p__q"}, {"namespaced_name": "slack__p__q"}]}
			< {"id": 2, "resources": [{"namespaced_uri": "capsem://github/test://a/b?c"}, {"namespaced_uri": "capsem://slack/test://a/b?c"}]}
			< {"id": 3, "tools": [{"namespaced_name": "github__odd"}, {"namespaced_name": "github__echo"}, {"namespaced_name": "github__a__b"},
				{"namespaced_name": "slack__odd"}, {"namespaced_name": "slack__echo"}, {"namespaced_name": "slack__a__b"}]}`},
}

var lifecycle = []statement{
	{says: "spawned with stdin and stdout piped", held: "cmd/aggd TestProgram"},
	{says: "initialize per enabled server, tools/list, resources/list, prompts/list", check: firstRequests},
	{says: "not found: empty results for catalog queries and errors for tool calls",
		hutch: "list_servers says what is missing, and a program that comes later is started", held: "aggd/child TestMissing"},
	{says: "requests arrive on stdin, responses go to stdout, logs go to stderr", dialogue: `
			> [{"name": "github", "url": "DEAD"}]
			> {"id": 1, "method": "list_tools"}
			< {"id": 1, "tools": []}
			! github: initialize: not reached:`},
	{says: "shutdown: the aggregator disconnects all servers and exits", check: func(t *testing.T) {
		disconnects(t, `
			> {"id": 2, "method": "list_prompts"}
			< {"id": 2, "prompts": [{"original_name": "p__q"}]}

			> {"id": 9, "method": "shutdown"}
			< {"id": 9, "ok": true}`)
	}},
	{says: "parent exit: the aggregator detects EOF, disconnects all servers and exits",
		hutch: "what is under way may be answered for a few seconds: TestEndOfInput", check: func(t *testing.T) {
			disconnects(t, `
			> {"id": 2, "method": "list_prompts"}
			< {"id": 2, "prompts": [{"original_name": "p__q"}]}`)
		}},
	{says: "if the aggregator crashes, subsequent requests receive an error",
		hutch: "those under way do; it is started again, and subsequent ones wait a moment for that", held: "aggd/child TestDeath"},
	{says: "the endpoint returns a JSON-RPC error to the guest", held: "mcpd TestNoAggregator"},
	{says: "the VM continues running, only external MCP tools become unavailable", held: "cmd/hutchd TestWithoutAggregator"},
}

var protocol = []statement{
	{says: "each message is a single JSON object terminated by a newline", hutch: "empty lines count for nothing", dialogue: `
			> {"id": 1, "method": "call_tool", "params": {"name": "github__x"}}
			< {"id": 1, "result": {"echo": {"name": "x"}}}`},
	{says: "maximum line length is 1 MB", hutch: "results may have 16 MB, for images come as text", check: longestLine},
	{says: "the first line is a JSON array of server definitions", dialogue: `
			> [ { "name": "github", "url": "URL", "headers": {}, "bearer_token": "ghp_xxxx", "enabled": true, "source": "claude", "unsupported_stdio": false }]
			> {"id": 2, "method": "list_tools"}
			< {"id": 2, "tools": [{}, {}, {}]}

			> {"id": 5, "method": "call_tool", "params": {"name": "github__x"}}
			< {"id": 5, "result": {}}

			> {"id": 1, "method": "list_servers"}
			< {"id": 1, "servers": [{"name": "github", "url": "URL", "enabled": true, "source": "claude", "is_stdio": false, "connected": true,
				"tool_count": 3, "resource_count": 1, "prompt_count": 1, "state": "connected", "protocol_version": "2025-06-18"}]}`},
	{says: "servers marked unsupported_stdio and disabled servers are skipped",
		hutch: "stdio servers are hutchd's to start; only those it does not start are unsupported", check: skipped},
	{says: "the response echoes the id of the request, a u64", dialogue: `
			> {"id": 18446744073709551615, "method": "list_prompts"}
			< {"id": 18446744073709551615, "prompts": [{}]}`},
	{says: "error responses: server not found: github", dialogue: `
			> []
			> {"id": 5, "method": "call_tool", "params": {"name": "github__search_repos", "arguments": {"query": "rust"}}}
			< {"id": 5, "error": "server not found: github"}`},
}

var operations = []statement{
	{says: "list_servers: server definitions with connection status", dialogue: `
			> {"id": 3, "method": "list_resources"}
			< {"id": 3, "resources": [{}]}

			> {"id": 5, "method": "call_tool", "params": {"name": "github__x"}}
			< {"id": 5, "result": {}}

			> {"id": 1, "method": "list_servers"}
			< {"id": 1, "servers": [{"name": "github", "connected": true, "tool_count": 3}]}`},
	{says: "list_tools: all discovered tools", dialogue: `
			> {"id": 2, "method": "list_tools"}
			< {"id": 2, "tools": [{"namespaced_name": "github__odd"}, {"namespaced_name": "github__echo", "original_name": "echo", "server_name": "github",
				"description": "e", "input_schema": {"type": "object"}, "annotations": {"title": "E", "read_only_hint": true, "destructive_hint": true,
				"idempotent_hint": false, "open_world_hint": true}}, {"namespaced_name": "github__a__b", "original_name": "a__b"}]}`},
	{says: "list_resources: all discovered resources", dialogue: `
			> {"id": 3, "method": "list_resources"}
			< {"id": 3, "resources": [{"namespaced_uri": "capsem://github/test://a/b?c", "original_uri": "test://a/b?c", "name": "r", "mime_type": "text/x",
				"server_name": "github"}]}`},
	{says: "list_prompts: all discovered prompts", dialogue: `
			> {"id": 4, "method": "list_prompts"}
			< {"id": 4, "prompts": [{"namespaced_name": "github__p__q", "original_name": "p__q", "arguments": [{"name": "a", "required": true}],
				"server_name": "github"}]}`},
	{says: "call_tool: call a namespaced tool on an external server", dialogue: `
			> {"id": 5, "method": "call_tool", "params": {"name": "github__search_repos", "arguments": {"query": "rust"}}}
			< {"id": 5, "result": {"echo": {"name": "search_repos", "arguments": {"query": "rust"}}}}`},
	{says: "read_resource: read a namespaced resource", dialogue: `
			> {"id": 6, "method": "read_resource", "params": {"uri": "capsem://github/repo://owner/repo"}}
			< {"id": 6, "result": {"echo": {"uri": "repo://owner/repo"}}}`},
	{says: "get_prompt: get a namespaced prompt", dialogue: `
			> {"id": 7, "method": "get_prompt", "params": {"name": "github__review_pr", "arguments": {}}}
			< {"id": 7, "result": {"echo": {"name": "review_pr", "arguments": {}}}}`},
	{says: "refresh: disconnect all servers, replace definitions, reconnect",
		hutch: "a server whose definition did not change keeps its connection: TestRefresh", dialogue: `
			> {"id": 8, "method": "refresh", "params": {"servers": [{"name": "slack", "url": "URL"}]}}
			> {"id": 2, "method": "list_prompts"}
			> {"id": 5, "method": "call_tool", "params": {"name": "github__x"}}
			< {"id": 8, "ok": true}
			< {"id": 2, "prompts": [{"server_name": "slack"}]}
			< {"id": 5, "error": "server not found: github"}

			> {"id": 80, "method": "refresh", "params": {"servers": []}}
			> {"id": 81, "method": "list_servers"}
			< {"id": 80, "ok": true}
			< {"id": 81, "servers": []}`},
	{says: "shutdown: disconnect all servers and exit", hutch: "what comes after it is not read", dialogue: `
			> {"id": 9, "method": "shutdown"}
			< {"id": 9, "ok": true}

			> {"id": 10, "method": "list_servers"}`},
	{says: "operations: these nine", hutch: "besides list_templates, client, rpc, notify, cancel and reply, of aggd(8)", dialogue: `
			> {"id": 55, "method": "no_such_method"}
			< {"id": 55, "error": "unknown method: \"no_such_method\""}`},
}

var definitions = []statement{
	{says: "tools are namespaced to prevent collisions across servers", dialogue: `
			> [{"name": "github", "url": "URL"}, {"name": "slack", "url": "URL"}]
			> {"id": 1, "method": "call_tool", "params": {"name": "github__search_repos"}}
			> {"id": 2, "method": "call_tool", "params": {"name": "slack__send_message"}}
			> {"id": 3, "method": "call_tool", "params": {"name": "noseparator", "arguments": {}}}
			< {"id": 1, "result": {"echo": {"name": "search_repos"}}}
			< {"id": 2, "result": {"echo": {"name": "send_message"}}}
			< {"id": 3, "error": "name without a server: noseparator"}`},
	{says: "resources use URI-based namespacing", dialogue: `
			> {"id": 1, "method": "read_resource", "params": {"uri": "capsem://github/repo://owner/repo"}}
			> {"id": 54, "method": "read_resource", "params": {"uri": "http://github/x"}}
			< {"id": 1, "result": {"echo": {"uri": "repo://owner/repo"}}}
			< {"id": 54, "error": "uri without a server: http://github/x"}`},
	{says: "the aggregator splits on the first __ when routing", dialogue: `
			> {"id": 50, "method": "call_tool", "params": {"name": "github__my__tool"}}
			< {"id": 50, "result": {"echo": {"name": "my__tool"}}}`},
	{says: "processed in trust order, so that entries cannot be shadowed by later ones", dialogue: `
			> [{"name": "github", "url": "URL", "source": "corp"}, {"name": "github", "url": "DEAD", "source": "user"}]
			> {"id": 1, "method": "call_tool", "params": {"name": "github__x"}}
			< {"id": 1, "result": {"echo": {"name": "x"}}}

			> {"id": 2, "method": "list_servers"}
			< {"id": 2, "servers": [{"source": "corp", "connected": true}, {"source": "user", "state": "failed", "error": "another server is named github"}]}`},
	{says: "names containing __ or matching builtin and empty names are rejected",
		hutch: "and those with a slash, which would end the name in a URI", dialogue: `
			> [{"name": "a__b", "url": "URL"}, {"name": "builtin", "url": "URL"}, {"name": "", "url": "URL"}, {"name": "a/b", "url": "URL"}]
			> {"id": 1, "method": "list_servers"}
			> {"id": 2, "method": "list_tools"}
			> {"id": 57, "method": "call_tool", "params": {"name": "a__b__c"}}
			< {"id": 1, "servers": [{"name": "a__b", "connected": false, "state": "failed", "error": "the server name \"a__b\" has \"__\" in it"},
				{"name": "builtin", "state": "failed", "error": "the server name \"builtin\" is reserved"},
				{"name": "", "state": "failed", "error": "a server needs a name"}, {"name": "a/b", "state": "failed"}]}
			< {"id": 2, "tools": []}
			< {"id": 57, "error": "server not found: a"}`},
	{says: "adding, removing, or reconfiguring servers while a VM is running",
		hutch: "by a message to a ctl file in place of POST /reload-config", held: "mcpd TestReload"},
}

var failures = []statement{
	{says: "some servers fail to connect: warning logged, continue with working servers", dialogue: `
			> [{"name": "dead", "url": "DEAD"}, {"name": "github", "url": "URL"}]
			> {"id": 1, "method": "list_prompts"}
			< {"id": 1, "prompts": [{"server_name": "github"}]}
			! dead: initialize: not reached:`},
	{says: "tool call to disconnected server: error response, other tools unaffected", dialogue: `
			> [{"name": "dead", "url": "DEAD"}, {"name": "off", "url": "URL", "enabled": false}, {"name": "github", "url": "URL"}]
			> {"id": 1, "method": "call_tool", "params": {"name": "dead__x"}}
			> {"id": 51, "method": "call_tool", "params": {"name": "nobody__x", "arguments": {}}}
			> {"id": 53, "method": "call_tool", "params": {"name": "off__x", "arguments": {}}}
			> {"id": 2, "method": "call_tool", "params": {"name": "github__x"}}
			< {"id": 1, "error": "server dead is not connected: initialize: not reached: …"}
			< {"id": 51, "error": "server not found: nobody"}
			< {"id": 53, "error": "server off is disabled"}
			< {"id": 2, "result": {"echo": {"name": "x"}}}`},
	{says: "malformed request line: logged, skipped, loop continues",
		hutch: "answered with an error where an id can be read from it", dialogue: `
			> this is not JSON
			> {"id": 58, "method": "list_tools"
			> {"method": "list_tools"}
			> []
			> {"id": 1, "method": "list_prompts"}
			< {"id": 58, "error": "not JSON"}
			< {"id": 1, "prompts": [{}]}
			! skipped a line: not JSON
			! skipped a line: no id`},
	{says: "subprocess crash: the VM keeps running", held: "cmd/hutchd TestCrashes"},
	{says: "serialization failure: fallback JSON error response", check: func(t *testing.T) {
		for _, text := range []string{"json: unsupported value: NaN", "a\xffb\"\n\u2028"} {
			if line := encodeAnswer([]byte("5"), nil, errors.New(text)); !json.Valid(line) || !bytes.HasPrefix(line, []byte(`{"id":5,"error":"`)) {
				t.Errorf("%q becomes %s", text, line)
			}
		}
	}},
	{says: "stdin EOF: graceful shutdown", check: func(t *testing.T) {
		disconnects(t, `
			> {"id": 1, "method": "call_tool", "params": {"name": "github__x"}}
			< {"id": 1, "result": {}}`)
	}},
}

// seen has a fake tell of every request: its method, or MCP's, with its token.
func seen(f *streamableFake) <-chan string {
	requests := make(chan string, 1000)
	f.see = func(r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		what := r.Method
		if method := rawjson.GetString(body, "method"); method != "" {
			what = method
		}
		requests <- what + " " + r.Header.Get("Authorization") + " " + r.Header.Get("X-Team")
	}
	return requests
}

func credentials(t *testing.T) {
	f := &streamableFake{}
	requests := seen(f)
	dialogue(`
		> [{"name": "github", "url": "URL", "headers": {"X-Team": "blue"}, "bearer_token": "ghp_xxxx"}]
		> {"id": 1, "method": "call_tool", "params": {"name": "github__x"}}
		< {"id": 1, "result": {}}`).hold(t, f)
	if len(requests) == 0 {
		t.Error("no request")
	}
	for len(requests) > 0 {
		if r := <-requests; !strings.HasSuffix(r, " Bearer ghp_xxxx blue") {
			t.Errorf("without its credentials: %s", r)
		}
	}
}

// firstRequests has the host ask for nothing but the end.
func firstRequests(t *testing.T) {
	f := &streamableFake{}
	requests := seen(f)
	h := start(t, Config{}, wire.Server{Name: "github", URL: serveStreamable(t, f).URL})
	left := []string{"initialize", "tools/list", "resources/list", "prompts/list"}
	for len(left) > 0 {
		select {
		case r := <-requests:
			left = slices.DeleteFunc(left, func(what string) bool { return strings.HasPrefix(r, what+" ") })
		case <-time.After(patience):
			t.Fatalf("it does not ask for %s", left)
		}
	}
	h.awaitState("github", wire.Connected)
}

// disconnects holds a dialogue at the end of which the session was given back.
func disconnects(t *testing.T, d dialogue) {
	f := &streamableFake{}
	requests := seen(f)
	d.hold(t, f)
	for len(requests) > 0 {
		if strings.HasPrefix(<-requests, "DELETE ") {
			return
		}
	}
	t.Error("the session was not given back")
}

func skipped(t *testing.T) {
	f := &streamableFake{}
	requests := seen(f)
	dialogue(`
		> [{"name": "prog", "url": "URL", "unsupported_stdio": true}, {"name": "old", "command": "x"}, {"name": "off", "url": "URL", "enabled": false}]
		> {"id": 1, "method": "list_tools"}
		> {"id": 2, "method": "list_servers"}
		> {"id": 3, "method": "call_tool", "params": {"name": "prog__x"}}
		< {"id": 1, "tools": []}
		< {"id": 2, "servers": [{"name": "prog", "connected": false, "state": "unsupported"}, {"name": "old", "state": "unsupported"},
			{"name": "off", "enabled": false, "connected": false, "state": "disabled"}]}
		< {"id": 3, "error": "server prog is unsupported…"}`).hold(t, f)
	if len(requests) > 0 {
		t.Errorf("%d requests, the first %s", len(requests), <-requests)
	}
}

func longestLine(t *testing.T) {
	line := func(size int) string {
		head, tail := `> {"id": 1, "method": "call_tool", "params": {"name": "`, `"}}`
		return head + strings.Repeat("x", size-len(head)+len("> ")-len(tail)) + tail
	}
	dialogue(line(1<<20)+`
		< {"id": 1, "error": "name without a server: xxx…"}

		`+line(1<<20+1)+`
		< {"id": 1, "error": "the request: message of 1048577 bytes is over the limit of 1048576"}

		> {"id": 2, "method": "list_prompts"}
		< {"id": 2, "prompts": [{}]}`).hold(t, &streamableFake{})
}
