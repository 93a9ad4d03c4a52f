package mcpd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
	"hutch/mcpd/policy"
)

func TestLists(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("two", "one"))
	g := st.hello(t, 2, `{"roots":{}}`)
	var got struct {
		Tools []struct {
			Name string
			Raw  json.RawMessage `json:"-"`
		}
	}
	raw := g.ok("tools/list", "")
	json.Unmarshal(raw, &got)
	var names []string
	for _, tool := range got.Tools {
		names = append(names, tool.Name)
	}
	if !slices.IsSorted(names) || len(names) != ours+2*16 || !slices.Contains(names, "file_read") || !slices.Contains(names, "two__a__b") {
		t.Errorf("tools: %q", names)
	}
	want := `{"name":"one__echo","description":"say it again","inputSchema":{"type":"object","unevaluatedProperties":false,"x-unknown":9007199254740993},"future":{"a":[1.50,"<&>"]}}`
	if !strings.Contains(string(raw), want) {
		t.Errorf("tools/list lacks %s:\n%s", want, raw)
	}
	for _, tt := range []struct{ method, want string }{
		{"resources/list", `{"uri":"capsem://one/test://one/one","name":"one","size":9007199254740993}`},
		{"resources/templates/list", `{"resourceTemplates":[{"uriTemplate":"capsem://one/test://one/t/{id}","name":"t"},{"uriTemplate":"capsem://two/`},
		{"prompts/list", `{"prompts":[{"name":"one__greet","arguments":[{"name":"who"}],"icon":"x"},{"name":"two__greet"`},
	} {
		if raw := string(g.ok(tt.method, `{}`)); !strings.Contains(raw, tt.want) {
			t.Errorf("%s: %s, want %s", tt.method, raw, tt.want)
		}
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one", "two"))
	g := st.hello(t, 1, `{}`)
	for _, tt := range []struct{ method, params, want string }{
		{"resources/read", `{"uri":"capsem://two/test://two/one","x":1}`, `{"contents":[{"uri":"test://two/one","text":"content","odd":1e400}]}`},
		{"resources/read", `{"uri":"test://one/one"}`, `{"contents":[{"uri":"test://one/one","text":"content","odd":1e400}]}`},
		{"resources/read", `{"uri":"test://two/t/5"}`, `{"contents":[{"uri":"test://two/t/5","text":"content","odd":1e400}]}`},
		{"prompts/get", `{"name":"two__greet","arguments":{"who":"me"}}`, `{"method":"prompts/get","got":{"name":"greet","arguments":{"who":"me"}}}`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"one__greet"},"argument":{"name":"who","value":"m"}}`,
			`{"method":"completion/complete","got":{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":"m"}}}`},
		{"completion/complete", `{"ref":{"uri":"capsem://one/test://one/t/{id}","type":"ref/resource"}}`,
			`{"method":"completion/complete","got":{"ref":{"uri":"test://one/t/{id}","type":"ref/resource"}}}`},
		{"resources/subscribe", `{"uri":"capsem://two/test://two/one"}`, `{"method":"resources/subscribe","got":{"uri":"test://two/one"}}`},
	} {
		if got := untraced(string(g.ok(tt.method, tt.params))); got != tt.want {
			t.Errorf("%s %s:\n%s, want\n%s", tt.method, tt.params, got, tt.want)
		}
	}
	g.fails("resources/read", `{"uri":"test://shared"}`, jsonrpc.CodeParams, "one and two have it")
}

func TestDenied(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"), policy.List{Server: "one", Blocked: []string{"echo"}})
	g := st.hello(t, 1, `{}`)
	g.fails("tools/call", `{"name":"one__echo"}`, jsonrpc.CodeInvalid, "MCP request blocked by policy: mcpServers.one.blocked_tools: tool \"echo\"")
	g.fails("tools/call", `{"name":"one__none"}`, jsonrpc.CodeParams, "tool not found: one__none")
	g.fails("tools/call", `{"name":"gone__tool"}`, jsonrpc.CodeParams, "tool not found: gone__tool")
	g.fails("tools/call", `{"name":"bare"}`, jsonrpc.CodeParams, "tool not found: bare")
	g.fails("tools/call", `{"name":"__x"}`, jsonrpc.CodeParams, "tool not found: __x")
	g.fails("resources/read", `{"uri":"capsem://gone/x"}`, jsonrpc.CodeResource, "resource not found: capsem://gone/x")
	g.fails("prompts/get", `{"name":"gone__x"}`, jsonrpc.CodeParams, "prompt not found: gone__x")
	for _, r := range st.lines(8)[1:] {
		if r["decision"] != "denied" || r["policy_rule"] == nil || r["policy_reason"] == nil || r["outcome"] != "error" {
			t.Errorf("record: %v", r)
		}
	}
	if !st.saw(`gone__tool`) || !st.saw("one__echo") {
		t.Errorf("security events: %q", st.events)
	}
	// What would be refused is not shown.
	if list := string(g.ok("tools/list", `{}`)); strings.Contains(list, `"one__echo"`) || !strings.Contains(list, `"one__`) {
		t.Errorf("tools/list: %s", list)
	}
	for _, tool := range st.Items(wire.Tools) {
		if tool.Name == "one__echo" {
			t.Error("the tree shows a tool that is refused")
		}
	}
}

func TestWorkspace(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, nil)
	os.WriteFile(filepath.Join(st.work, "f"), []byte("hello"), 0o644)
	g := st.hello(t, 1, `{}`)
	if got := string(g.ok("tools/call", `{"name":"file_read","arguments":{"path":"/workspace/f"}}`)); !strings.Contains(got, `"text":"hello"`) {
		t.Errorf("file_read: %s", got)
	}
	if got := string(g.ok("tools/call", `{"name":"file_read","arguments":{"path":"../f"}}`)); !strings.Contains(got, `"isError":true`) {
		t.Errorf("file_read of ..: %s", got)
	}
	if r := st.lines(3); r[1]["server_name"] != "file" || r[1]["tool_name"] != "file_read" || r[1]["is_error"] != 0. || r[2]["is_error"] != 1. || r[2]["decision"] != "denied" {
		t.Errorf("records: %v", r)
	}
}

func TestTree(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	result, err := st.Call(t.Context(), Caller{Process: "hutch"}, "one__echo", json.RawMessage(`{"a":9007199254740993}`))
	if err != nil || !strings.Contains(untraced(string(result)), `"params":{"name":"echo","arguments":{"a":9007199254740993}}`) {
		t.Errorf("call: %s, %v", result, err)
	}
	if result, err = st.ReadResource(t.Context(), Caller{Process: "hutch"}, "capsem://one/test://one/one"); err != nil || !strings.Contains(string(result), "content") {
		t.Errorf("read: %s, %v", result, err)
	}
	if result, err = st.GetPrompt(t.Context(), Caller{Process: "hutch"}, "one__greet", nil); err != nil || !strings.Contains(string(result), "prompts/get") {
		t.Errorf("prompt: %s, %v", result, err)
	}
	if _, err = st.Call(t.Context(), Caller{Process: "hutch"}, "nothing", nil); err == nil || !strings.HasPrefix(err.Error(), "file does not exist: tool not found: nothing") {
		t.Errorf("unregistered: %v", err)
	}
	if r := st.lines(4)[0]; r["process_name"] != "hutch" {
		t.Errorf("record: %v", r)
	}
	st.hello(t, 1, `{}`).ok("tools/list", "") // by then the lists have been fetched
	var names []string
	for _, tool := range st.Items(wire.Tools) {
		names = append(names, tool.Name)
	}
	if len(names) != ours+16 || !slices.Contains(names, "one__echo") || st.Sessions() != 1 {
		t.Errorf("tools: %q, %d sessions", names, st.Sessions())
	}
	st.awaitServers("one connected transport stdio tools 16 resources 2 templates 1 prompts 1 protocol 2025-06-18")
}

func TestMatchTemplate(t *testing.T) {
	for _, tt := range []struct {
		template, uri string
		want          bool
	}{
		{"a://b/{id}", "a://b/5", true}, {"a://b/{id}", "a://b/5/6", false}, {"a://b/{id}", "a://b/", false},
		{"a://b/{id}/c", "a://b/5/c", true}, {"a://b/{id}/c", "a://b/5/d", false}, {"a://b/{+path}", "a://b/x/y", true},
		{"a://b/{x}/{y}", "a://b/1/2", true}, {"a://b/{x}/{y}", "a://b/1", false}, {"a://b/{x}-{y}", "a://b/1-2-3", true},
		{"a://b{?q}", "a://b?q=1", true}, {"a://b", "a://b", true}, {"a://b", "a://c", false}, {"a://{", "a://{", false},
		{"a://{x}.txt", "a://f.txt", true}, {"a://{x}.txt", "a://.txt", false}, {"a://{x}.txt", "a://a.txt.txt", true},
	} {
		if got := matchTemplate(tt.template, tt.uri); got != tt.want {
			t.Errorf("%s against %s: %v", tt.template, tt.uri, got)
		}
	}
}
