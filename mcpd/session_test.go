package mcpd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/trace"
	"hutch/aggd/wire"
	"hutch/mcpd/frame"
	"hutch/mcpd/policy"
)

func TestInitialize(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	for _, tt := range []struct{ asked, want string }{
		{"2024-11-05", "2024-11-05"}, {"2025-03-26", "2025-03-26"}, {"2025-06-18", "2025-06-18"}, {"2025-11-25", "2025-11-25"},
		{"2026-07-28", "2025-11-25"}, {"1.0", "2025-11-25"},
	} {
		g := st.dial(t, 1)
		var got struct {
			ProtocolVersion string
			Capabilities    json.RawMessage
			ServerInfo      struct{ Name string }
			Instructions    string
		}
		json.Unmarshal(g.ok("initialize", `{"protocolVersion":"`+tt.asked+`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`), &got)
		if got.ProtocolVersion != tt.want || got.ServerInfo.Name != "hutch" {
			t.Errorf("asked for %s: %+v, want %s", tt.asked, got, tt.want)
		}
		want := `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"logging":{},"completions":{}}`
		if string(got.Capabilities) != want || got.Instructions != "# one\n\nbe kind to one" {
			t.Errorf("capabilities %s, instructions %q", got.Capabilities, got.Instructions)
		}
	}
	st.dial(t, 1).fails("initialize", `{}`, jsonrpc.CodeParams, "protocolVersion")
}

// What a client says without waiting for initialize is answered after it.
func TestInitializeFirst(t *testing.T) {
	t.Parallel()
	g := newSite(t, nil, nil).dial(t, 1)
	first := g.send(g.request("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`))
	g.wait(g.send(g.request("ping", "")))
	if len(first) == 0 {
		t.Error("ping was answered before initialize")
	}
}

func TestPingAndUnknown(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, nil)
	g := st.hello(t, 1, `{}`)
	if r := g.ok("ping", ""); string(r) != "{}" {
		t.Errorf("ping: %s", r)
	}
	g.fails("tools/eat", "", jsonrpc.CodeMethod, "method not found: tools/eat")
	g.fails("tools/list", `{"cursor":"x"}`, jsonrpc.CodeParams, "cursor")
	g.fails("tools/call", `{}`, jsonrpc.CodeParams, "missing parameter: name")
	g.fails("tools/call", `{"name":7}`, jsonrpc.CodeParams, "missing parameter: name")
	g.fails("resources/read", `{}`, jsonrpc.CodeParams, "missing parameter: uri")
	g.fails("prompts/get", `{}`, jsonrpc.CodeParams, "missing parameter: name")
	g.fails("prompts/get", `{"name":"greet"}`, jsonrpc.CodeParams, "unknown prompt")
	g.fails("completion/complete", `{}`, jsonrpc.CodeParams, "missing parameter: ref")
	g.fails("completion/complete", `{"ref":{"type":"ref/tool","name":"x"}}`, jsonrpc.CodeParams, "invalid ref")
	g.fails("logging/setLevel", `{"level":"loud"}`, jsonrpc.CodeParams, "invalid level")
	g.fails("resources/read", `{"uri":"capsem://x"}`, jsonrpc.CodeParams, "invalid uri")
	g.fails("resources/read", `{"uri":"test://nowhere"}`, jsonrpc.CodeResource, "not found")
}

// Ids come back with the bytes they came with.
func TestIDs(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, nil)
	g := st.dial(t, 1)
	for _, id := range []string{`1`, `"1"`, `-7`, `9007199254740993`, `1.0`, `1e2`, `"\u00e9\""`, `""`} {
		m := g.wait(g.send(`{"id":` + id + `,"method":"ping","jsonrpc":"2.0"}`))
		if string(m.ID) != id {
			t.Errorf("id %s came back as %s", id, m.ID)
		}
	}
}

func TestCallThrough(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one", "two"))
	g := st.hello(t, 1, `{}`)
	params := `{ "name":"one__echo", "arguments":{"big":9007199254740993,"f":1.50,"s":"<&>\u003c","dup":1,"dup":2},"odd":[1e400],"_meta":{"x":null} }`
	got := string(g.ok("tools/call", params))
	want := `{"content":[{"type":"hologram","x":9007199254740993}],"structuredContent":{"params":` +
		strings.Replace(params, "one__echo", "echo", 1) + `},"_meta":{"odd":"<&>"},"future":[1.50]}`
	if got = untraced(got); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	if got := string(g.ok("tools/call", `{"name":"one__a__b"}`)); !strings.Contains(got, `"name":"a__b"`) {
		t.Errorf("a tool with __ in its name: %s", got)
	}
	m := g.do("tools/call", `{"name":"two__error"}`)
	if m.Error == nil || m.Error.Code != -32042 || m.Error.Message != "told <so>" || string(m.Error.Data) != `{"big":9007199254740993}` {
		t.Errorf("a server's error: %+v", m.Error)
	}
	records := st.lines(4)
	r := records[1]
	if r["server_name"] != "one" || r["method"] != "tools/call" || r["tool_name"] != "one__echo" || r["decision"] != "allowed" ||
		r["process_name"] != "agent" || r["request_id"] != "2" || len(r["trace_id"].(string)) != 32 || r["outcome"] != "ok" {
		t.Errorf("record: %v", r)
	}
	if r := records[3]; r["decision"] != "error" || r["error_message"] != "told <so>" {
		t.Errorf("record of an error: %v", r)
	}
}

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
	if r := st.lines(3); r[1]["server_name"] != "file" || r[1]["tool_name"] != "file_read" || r[1]["is_error"] != 0. || r[2]["is_error"] != 1. || r[2]["outcome"] != "ok" {
		t.Errorf("records: %v", r)
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	a, b := st.hello(t, 1, `{}`), st.hello(t, 1, `{}`)
	for _, token := range []string{`"my token"`, `9007199254740993`} {
		a.ok("tools/call", `{"name":"one__progress","_meta":{"progressToken":`+token+`}}`)
		for i := range 3 {
			want := fmt.Sprintf(`{"progressToken":%s,"progress":%d,"total":9007199254740993,"odd":[]}`, token, i)
			if n := a.note("notifications/progress"); string(n.Params) != want {
				t.Errorf("progress %s, want %s", n.Params, want)
			}
		}
	}
	if got := b.told("notifications/progress"); len(got) > 0 {
		t.Errorf("the other session got %+v", got)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	g := st.hello(t, 1, `{}`)
	answer := g.send(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"one__wait","_meta":{"progressToken":1}}}`)
	g.note("notifications/progress")
	g.notify("notifications/cancelled", `{"requestId":"y"}`)
	g.notify("notifications/cancelled", `{"requestId":"x","reason":"bored"}`)
	if r := st.lines(2)[1]; r["decision"] != "error" || r["error_message"] != "cancelled by the client: bored" || r["outcome"] != "interrupted" {
		t.Errorf("record: %v", r)
	}
	for !strings.Contains(string(g.ok("tools/call", `{"name":"one__events"}`)), `cancelled: bored`) {
	}
	if len(answer) > 0 {
		t.Error("a cancelled request was answered")
	}
}

func TestLostConnection(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	g, other := st.hello(t, 1, `{}`), st.hello(t, 1, `{}`)
	g.send(g.request("tools/call", `{"name":"one__wait","_meta":{"progressToken":1}}`))
	g.note("notifications/progress")
	g.conn.Close()
	if r := st.lines(3)[2]; r["error_message"] != "connection lost" || r["outcome"] != "interrupted" {
		t.Errorf("record: %v", r)
	}
	for !strings.Contains(string(other.ok("tools/call", `{"name":"one__events"}`)), `cancelled: `) {
	}
}

// A guest that writes no more still gets its answers.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	g := st.hello(t, 1, `{}`)
	ch := g.send(g.request("tools/call", `{"name":"one__progress","_meta":{"progressToken":1}}`))
	g.conn.(interface{ CloseWrite() error }).CloseWrite()
	if m := g.wait(ch); m.Error != nil {
		t.Errorf("answer: %+v", m.Error)
	}
	<-g.over
}

func TestServerRequests(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	g := st.hello(t, 2, `{"sampling":{},"elicitation":{}}`)
	other := st.hello(t, 2, `{"sampling":{},"elicitation":{}}`)
	ch := g.send(g.request("tools/call", `{"name":"one__sample"}`))
	f := <-g.asks
	var q reply
	json.Unmarshal(f.Payload, &q)
	if f.Version != 2 || f.Flags != frame.FromHost || q.Method != "sampling/createMessage" || string(q.Params) != `{"messages":[],"maxTokens":9007199254740993}` {
		t.Errorf("asked %+v %s", f, f.Payload)
	}
	f.Payload = []byte(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"model":"m","n":9007199254740993}}`)
	g.w.WriteFrame(f)
	if m := g.wait(ch); string(m.Result) != `{"content":[],"answer":{"model":"m","n":9007199254740993}}` {
		t.Errorf("answer %s %+v", m.Result, m.Error)
	}
	ch = g.send(g.request("tools/call", `{"name":"one__elicit"}`))
	f = <-g.asks
	json.Unmarshal(f.Payload, &q)
	f.Payload = []byte(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"error":{"code":-1,"message":"no","data":1.50}}`)
	g.w.WriteFrame(f)
	if m := g.wait(ch); string(m.Result) != `{"content":[],"answer":{"code":-1,"message":"no","data":1.50}}` {
		t.Errorf("answer %s %+v", m.Result, m.Error)
	}
	if got := string(g.ok("tools/call", `{"name":"one__roots"}`)); !strings.Contains(got, "-32601") {
		t.Errorf("roots, which were not offered: %s", got)
	}
	if len(other.asks) > 0 {
		t.Error("the other session was asked")
	}
	var rows []string
	for _, r := range st.lines(8) {
		if r["direction"] != "server" {
			continue
		}
		rows = append(rows, fmt.Sprintln(r["server_name"], r["method"], r["decision"], r["outcome"], r["is_error"], r["error_message"], r["trace_id"] != nil, r["process_name"] != nil))
	}
	want := "one sampling/createMessage allowed ok 0 <nil> true true\none elicitation/create error error 1 no true true\none roots/list error error 1 method not found: roots/list true true\n"
	if got := strings.Join(rows, ""); got != want {
		t.Errorf("rows: %s, want %s", got, want)
	}
	old := st.hello(t, 1, `{"sampling":{}}`)
	if got := string(old.ok("tools/call", `{"name":"one__sample"}`)); !strings.Contains(got, "-32601") {
		t.Errorf("sampling in version 1: %s", got)
	}
}

func TestLogging(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	a, b := st.hello(t, 1, `{}`), st.hello(t, 1, `{}`)
	a.ok("logging/setLevel", `{"level":"warning"}`)
	b.ok("logging/setLevel", `{"level":"debug"}`)
	a.ok("tools/call", `{"name":"one__log"}`)
	if n := a.note("notifications/message"); string(n.Params) != `{"level":"warning","data":{"n":9007199254740993}}` {
		t.Errorf("a got %s", n.Params)
	}
	b.ok("tools/call", `{"name":"one__log"}`)
	if n := b.note("notifications/message"); !strings.Contains(string(n.Params), "debug") {
		t.Errorf("b got %s", n.Params)
	}
}

// What a stdio server tells reaches the session whose call is under way, and not
// its neighbours.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	a, b, c := st.hello(t, 1, `{}`), st.hello(t, 1, `{}`), st.hello(t, 1, `{}`)
	told := []string{"notifications/unusual", "notifications/message", "notifications/progress"}
	count := func(g *guest) (n []int) {
		all := map[string]int{}
		g.ok("ping", "")
		for len(g.notes) > 0 {
			all[(<-g.notes).Method]++
		}
		for _, method := range told {
			n = append(n, all[method])
		}
		return n
	}
	tell := func(g *guest) { g.ok("tools/call", `{"name":"one__log","_meta":{"progressToken":"t"}}`) }
	tell(a)
	for g, want := range map[*guest][]int{a: {1, 2, 1}, b: {0, 0, 0}} {
		if got := count(g); !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", told, got, want)
		}
	}
	b.send(b.request("tools/call", `{"name":"one__wait","_meta":{"progressToken":"w"}}`))
	b.note("notifications/progress")
	tell(a) // while two are under way nobody knows whose it is: both are told, c is not
	for g, want := range map[*guest][]int{a: {1, 2, 1}, b: {1, 2, 0}, c: {0, 0, 0}} {
		if got := count(g); !slices.Equal(got, want) {
			t.Errorf("two calls under way: %v: %v, want %v", told, got, want)
		}
	}
}

func TestSubscriptions(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	a, b := st.hello(t, 1, `{}`), st.hello(t, 1, `{}`)
	a.ok("resources/subscribe", `{"uri":"capsem://one/test://one/one"}`)
	b.ok("resources/subscribe", `{"uri":"test://one/one"}`)
	a.ok("tools/call", `{"name":"one__touch"}`)
	if n := a.note("notifications/resources/updated"); string(n.Params) != `{"uri":"capsem://one/test://one/one","odd":1}` {
		t.Errorf("a got %s", n.Params)
	}
	if n := b.note("notifications/resources/updated"); string(n.Params) != `{"uri":"test://one/one","odd":1}` {
		t.Errorf("b got %s", n.Params)
	}
	if got := string(a.ok("resources/unsubscribe", `{"uri":"capsem://one/test://one/one"}`)); got != `{}` {
		t.Errorf("the server was told though b still listens: %s", got)
	}
	if got := string(b.ok("resources/unsubscribe", `{"uri":"test://one/one"}`)); !strings.Contains(got, "resources/unsubscribe") {
		t.Errorf("the server was not told: %s", got)
	}
}

// TestListChangedOften has a list change again and again while it is fetched:
// that makes it be fetched once more, and no more goroutines wait for it.
func TestListChangedOften(t *testing.T) {
	st := newSite(t, nil, nil)
	turn := st.catalogs.of("")[wire.Tools].turn
	turn <- struct{}{}
	before := runtime.NumGoroutine()
	for range 100 {
		st.changed("")
		time.Sleep(time.Millisecond) // until a refresh has begun
	}
	if n := runtime.NumGoroutine() - before; n > 10 {
		t.Errorf("%d goroutines wait", n)
	}
	<-turn
}

func TestListChanged(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	g := st.hello(t, 1, `{}`)
	before := string(g.ok("tools/list", ""))
	g.ok("tools/call", `{"name":"one__grow"}`)
	g.note(wire.Tools.Changed)
	if after := string(g.ok("tools/list", "")); strings.Contains(before, "one__grown") || !strings.Contains(after, "one__grown") {
		t.Errorf("tools after the change: %s", after)
	}
	g.ok("tools/call", `{"name":"one__grown"}`)
}

func TestReload(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	g := st.hello(t, 1, `{}`)
	g.ok("tools/call", `{"name":"one__echo"}`)
	if err := st.Reload(t.Context(), testServers("two"), listed(t)); err != nil {
		t.Fatal(err)
	}
	g.note(wire.Tools.Changed)
	g.fails("tools/call", `{"name":"one__echo"}`, jsonrpc.CodeParams, "tool not found: one__echo")
	g.ok("tools/call", `{"name":"two__echo"}`)
	if p := st.Policy(); p == nil || p.Text() == "" {
		t.Errorf("policy: %v", p)
	}
	if list := string(g.ok("tools/list", "")); strings.Contains(list, "one__") || !strings.Contains(list, "two__echo") {
		t.Errorf("tools: %s", list)
	}
}

// untraced returns what a server was sent without what a trace adds to it.
func untraced(text string) string {
	text = regexp.MustCompile(`"traceparent":"00-[0-9a-f]{32}-[0-9a-f]{16}-0[0-9a-f]",?`).ReplaceAllString(text, "")
	return strings.ReplaceAll(text, `"_meta":{},`, "")
}

func TestTrace(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	g := st.hello(t, 1, `{}`)
	const id, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	rows := 1 // of initialize
	call := func(meta string) (sent json.RawMessage) {
		rows++
		result := g.ok("tools/call", `{"name":"one__echo","_meta":`+meta+`}`)
		return rawjson.Get(result, "structuredContent", "params", "_meta")
	}
	check := func(sent json.RawMessage, wantID, wantState string) {
		t.Helper()
		parent, state := trace.InMeta(sent)
		c, ok := trace.Parse(parent)
		if !ok || wantID != "" && c.ID() != wantID || c.ID() == id && wantID == "" || strings.Contains(parent, span) || state != wantState {
			t.Errorf("the server got %s", sent)
		}
		if r := st.lines(rows)[rows-1]; r["trace_id"] != c.ID() {
			t.Errorf("the row has %v, the server %s", r["trace_id"], parent)
		}
	}
	check(call(`{"traceparent":"00-`+id+`-`+span+`-01","tracestate":"a=b"}`), id, "a=b")
	check(call(`{"tracestate":"a=b"}`), "", "")
	check(call(`{"traceparent":"00-`+id+`-`+span+`-01","tracestate":"a\r\nX: y"}`), id, "")
	for _, rubbish := range []string{`"rubbish"`, `5`, `null`, `"00-` + strings.ToUpper(id) + `-` + span + `-01"`, `"00-` + id + `-0000000000000000-01"`} {
		check(call(`{"traceparent":`+rubbish+`}`), "", "")
	}
}

func TestTraceOfList(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, nil)
	g := st.dial(t, 1)
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	g.do("tools/list", `{"_meta":{"traceparent":"00-`+id+`-00f067aa0ba902b7-01"}}`)
	g.do("tools/list", `{"_meta":{"traceparent":"rubbish"}}`)
	r := st.lines(2)
	if r[0]["trace_id"] != id || r[1]["trace_id"] == id || len(r[1]["trace_id"].(string)) != 32 {
		t.Errorf("trace ids %v and %v", r[0]["trace_id"], r[1]["trace_id"])
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

func TestNoAggregator(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "/nonexistent/aggd"} {
		st := newSite(t, func(cfg *Config) { cfg.AggdPath = path }, testServers("one"))
		g := st.hello(t, 1, `{}`)
		g.fails("tools/call", `{"name":"one__echo"}`, jsonrpc.CodeInternal, "tool call failed: ")
		g.fails("resources/read", `{"uri":"capsem://one/x"}`, jsonrpc.CodeInternal, "resources/read failed: ")
		var list struct{ Tools []struct{ Name string } }
		if json.Unmarshal(g.ok("tools/list", ""), &list); len(list.Tools) != ours {
			t.Errorf("tools: %+v", list)
		}
		if text := st.ServersText(); !strings.Contains(text, "error") {
			t.Errorf("servers: %s", text)
		}
	}
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

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		in   string
		code int
		id   string
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"x"}`, 0, `1`},
		{`{"jsonrpc":"2.0","method":"x","params":null}`, 0, ``},
		{`{"jsonrpc":"2.0","id":1,"result":null}`, 0, `1`},
		{`{`, jsonrpc.CodeParse, ``}, {``, jsonrpc.CodeParse, ``}, {"\xff", jsonrpc.CodeParse, ``}, {`nothing`, jsonrpc.CodeParse, ``},
		{`{"jsonrpc":"2.0","id":1,"method":"x"}}`, jsonrpc.CodeParse, ``},
		{strings.Repeat("[", 1<<20), jsonrpc.CodeParse, ``},
		{`{"jsonrpc":"2.0","id":1,"method":"x","params":` + strings.Repeat(`{"a":`, 1<<16) + "1" + strings.Repeat("}", 1<<16) + `}`, jsonrpc.CodeParse, ``},
		{`[]`, jsonrpc.CodeInvalid, ``}, {` [{"jsonrpc":"2.0","id":1,"method":"x"}]`, jsonrpc.CodeInvalid, ``}, {`"x"`, jsonrpc.CodeInvalid, ``}, {`null`, jsonrpc.CodeInvalid, ``},
		{`{}`, jsonrpc.CodeInvalid, ``}, {`{"id":1,"method":"x"}`, jsonrpc.CodeInvalid, `1`}, {`{"jsonrpc":"1.0","id":1,"method":"x"}`, jsonrpc.CodeInvalid, `1`},
		{`{"jsonrpc":2.0,"id":1,"method":"x"}`, jsonrpc.CodeInvalid, `1`}, {`{"jsonrpc":"2.0","id":"a"}`, jsonrpc.CodeInvalid, `"a"`},
		{`{"jsonrpc":"2.0","id":1,"method":7}`, jsonrpc.CodeInvalid, `1`}, {`{"jsonrpc":"2.0","id":1,"method":""}`, jsonrpc.CodeInvalid, `1`},
		{`{"jsonrpc":"2.0","id":null,"method":"x"}`, jsonrpc.CodeInvalid, ``}, {`{"jsonrpc":"2.0","id":{},"method":"x"}`, jsonrpc.CodeInvalid, ``},
		{`{"jsonrpc":"2.0","id":true,"method":"x"}`, jsonrpc.CodeInvalid, ``},
		{`{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}`, jsonrpc.CodeInvalid, `1`}, {`{"jsonrpc":"2.0","id":1,"method":"x","params":"p"}`, jsonrpc.CodeInvalid, `1`},
		{`{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}`, jsonrpc.CodeInvalid, ``}, {`{"jsonrpc":"2.0","id":1,"method":"x","Method":"y"}`, jsonrpc.CodeInvalid, ``},
		{`{"jsonrpc":"2.0","id":1,"method":"x","params":{"name":"a","name":"b"}}`, jsonrpc.CodeInvalid, `1`},
		{`{"jsonrpc":"2.0","id":1,"method":"x","params":{"name":"a","na\u006de":"b"}}`, jsonrpc.CodeInvalid, `1`},
		{`{"jsonrpc":"2.0","id":1,"method":"x","params":{"name":"a","NAME":"b"}}`, jsonrpc.CodeInvalid, `1`},
	} {
		m, err := parse([]byte(tt.in))
		code := 0
		if err != nil {
			code = err.Code
		}
		if code != tt.code || string(m.ID) != tt.id {
			t.Errorf("parse(%.80s): id %s, %v, want id %s, code %d", tt.in, m.ID, err, tt.id, tt.code)
		}
	}
}

// FuzzParse replaces the name in a request that parses: the rest must decode
// to what it was.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b","arguments":{"x":9007199254740993}}}`), "b")
	f.Add([]byte(`{"jsonrpc":"2.0","id":"x","method":"m","params":{ "n\u0061me" : "\ud800" , "a":[1e400]}}`), "\"")
	f.Fuzz(func(t *testing.T, in []byte, name string) {
		m, err := parse(in)
		if err != nil || m.params.get(pName) == nil {
			return
		}
		before, after := decodeNumbers(t, m.params.raw), decodeNumbers(t, m.params.with(pName, name))
		if got, ok := after["name"].(string); !ok || got != string([]rune(name)) {
			t.Fatalf("name %q became %v", name, after["name"])
		}
		delete(before, "name")
		delete(after, "name")
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("%q: %v became %v", in, before, after)
		}
	})
}

func decodeNumbers(t *testing.T, data []byte) map[string]any {
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
