package mcpd

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/mcpd/policy"
)

// renaming is an Arrange: what is in the table has another name, what has "" there is
// left out, and the rest has its own name.
func renaming(names map[string]string) Arrange {
	return func(_ *wire.List, items []wire.Item) (arranged []wire.Item) {
		for _, it := range items {
			name, said := names[it.Name]
			switch {
			case !said:
				name = it.Original
			case name == "":
				continue
			}
			it.Name, it.Raw = name, rawjson.Set(it.Raw, []byte(`"told otherwise"`), "description")
			arranged = append(arranged, it)
		}
		return arranged
	}
}

// TestArrange serves two servers by names that an Arrange gives.
func TestArrange(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one", "two"), policy.List{Server: "one", Blocked: []string{"big"}})
	st.SetArrange(renaming(map[string]string{
		"one__echo": "say", "one__log": "", "two__log": "", "two__echo": "say_two", "one__wait": "local__echo", "one__touch": "file_read", "two__greet": "two_greet",
		"capsem://one/test://shared": "test://shared", "capsem://two/test://shared": "capsem://two/test://shared",
	}))
	g := st.hello(t, 2, `{}`)
	list := string(g.ok("tools/list", ""))
	for _, want := range []string{
		`{"name":"say","description":"told otherwise","inputSchema":{"type":"object","unevaluatedProperties":false,"x-unknown":9007199254740993},"future":{"a":[1.50,"<&>"]}}`,
		`{"name":"say_two"`,
	} {
		if !strings.Contains(list, want) {
			t.Errorf("tools/list lacks %s:\n%s", want, list)
		}
	}
	for _, gone := range []string{"one__", "two__", `"echo"`, `"big"`} {
		if strings.Contains(list, gone) {
			t.Errorf("tools/list has %s:\n%s", gone, list)
		}
	}
	if n := strings.Count(list, `"name":"file_read"`); n != 1 {
		t.Errorf("file_read is listed %d times", n)
	}

	for _, tt := range []struct{ method, params, want string }{
		{"tools/call", `{"name":"say","arguments":{"a":1}}`, `"params":{"name":"echo","arguments":{"a":1}}`},
		{"prompts/get", `{"name":"two_greet"}`, `{"method":"prompts/get","got":{"name":"greet"}}`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"two_greet"}}`, `{"method":"completion/complete","got":{"ref":{"type":"ref/prompt","name":"greet"}}}`},
		{"resources/read", `{"uri":"test://shared"}`, `"uri":"test://shared"`},
		{"resources/read", `{"uri":"capsem://two/test://shared"}`, `"uri":"test://shared"`},
		{"resources/read", `{"uri":"test://two/t/5"}`, `"uri":"test://two/t/5"`},
		{"resources/subscribe", `{"uri":"test://one/one"}`, `{"method":"resources/subscribe","got":{"uri":"test://one/one"}}`},
	} {
		if got := untraced(string(g.ok(tt.method, tt.params))); !strings.Contains(got, tt.want) {
			t.Errorf("%s %s:\n%s, want\n%s", tt.method, tt.params, got, tt.want)
		}
	}
	for _, name := range []string{"one__echo", "echo", "log", "one__log", "gone__x"} {
		g.fails("tools/call", `{"name":"`+name+`"}`, jsonrpc.CodeParams, "tool not found: "+name)
	}
	g.fails("tools/call", `{"name":"big"}`, jsonrpc.CodeInvalid, `mcpServers.one.blocked_tools: tool "big"`)
	g.fails("prompts/get", `{"name":"two__greet"}`, jsonrpc.CodeParams, "unknown prompt: two__greet")

	rows := st.lines(5)
	i := slices.IndexFunc(rows, func(r map[string]any) bool { return r["tool_name"] == "say" })
	if i < 0 || rows[i]["server_name"] != "one" || rows[i]["decision"] != "allowed" {
		t.Errorf("records: %v", rows)
	}
	if it, ok := st.Item(wire.Resources, "capsem://one/test://shared"); !ok || it.Name != "test://shared" || it.Server != "one" {
		t.Errorf("the tree has test://shared as %+v, %v", it, ok)
	}
	if _, err := st.Call(t.Context(), Caller{Process: "door"}, "say_two", json.RawMessage(`{}`)); err != nil {
		t.Error(err)
	}
}

// TestArrangeAnew changes the names of a session that is under way: the old ones lead
// nowhere from then on.
func TestArrangeAnew(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	g := st.hello(t, 2, `{}`)
	g.ok("tools/call", `{"name":"one__echo"}`)
	st.SetArrange(renaming(nil))
	g.note("notifications/tools/list_changed")
	g.ok("tools/call", `{"name":"echo"}`)
	g.fails("tools/call", `{"name":"one__echo"}`, jsonrpc.CodeParams, "tool not found: one__echo")
	st.SetArrange(renaming(map[string]string{"one__echo": ""}))
	g.fails("tools/call", `{"name":"echo"}`, jsonrpc.CodeParams, "tool not found: echo")
	st.SetArrange(nil)
	g.fails("tools/call", `{"name":"echo"}`, jsonrpc.CodeParams, "tool not found: echo")
	g.ok("tools/call", `{"name":"one__echo"}`)
}
