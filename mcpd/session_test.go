package mcpd

import (
	"encoding/json"
	"strings"
	"testing"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
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

// A member of a group has its own name above what it wants clients to know.
func TestInstructions(t *testing.T) {
	for text, want := range map[string]string{"": "", " be kind\n": "# a\n\nbe kind", "# a\n\nbe kind": "# a\n\nbe kind", "# b\n\nbe kind": "# a\n\n# b\n\nbe kind"} {
		if got := instructions([]wire.Status{{Name: "a", Instructions: text}}); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
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
