package alone

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hutch/aggd/wire"
)

// TestHostileChildren has one server of each bad kind beside a good one.
func TestHostileChildren(t *testing.T) {
	tools := `{"name":"text"},{"name":"dies"},{"name":"long"}`
	c := open(t, Config{ListWait: 5 * time.Second}, `{
		"exits": `+server(t, "exits", "")+`,
		"silent": `+server(t, "silent", "")+`,
		"garbage": `+server(t, "garbage", `{"name":"text"},7,{"name":7},{"nom":"x"},{"name":""}`)+`,
		"endless": `+server(t, "endless", "")+`,
		"floods": `+server(t, "floods", `{"name":"x"}`)+`,
		"missing": {"command":"/no/such/program"},
		"broken": {"command":7},
		"unset": {"command":"x","env":{"A":"${NO_SUCH_VARIABLE}"}},
		"good": `+server(t, "well", tools)+`}`)
	began := time.Now()
	if got := c.call("good:text"); got != answers["text"] || time.Since(began) > 4*time.Second {
		t.Errorf("after %v: %s", time.Since(began), got)
	}
	list := c.ask("1", "tools/list", "{}")
	for _, name := range []string{"good:text", "garbage:text", "floods:x"} {
		if !strings.Contains(list, `{"name":"`+name+`","inputSchema"`) {
			t.Errorf("no %s in %s", name, list)
		}
	}
	c.put(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"floods:x"}}`)
	for _, s := range []struct{ name, want string }{
		{"good:text", answers["text"]},
		{"garbage:text", answers["text"]},
		{"exits:x", `"error":{"code":-32603,"message":"server exits is not connected: `},
		{"missing:x", `"error":{"code":-32603,"message":"server missing is not connected: start: there is no program /no/such/program","data":{"hutch/reached":false}}`},
		{"broken:x", `"error":{"code":-32603,"message":"server broken is not connected: \"command\" takes no number","data":{"hutch/reached":false}}`},
		{"unset:x", `"message":"server unset is not connected: env A: the variable NO_SUCH_VARIABLE is not set`},
		{"good:long", `"error":{"code":-32603,"message":"the answer of the server: message of 17`},
		{"good:dies", `"error":{"code":-32603,"message":"the server died (exit status 4)`},
		{"good:text", answers["text"]},
	} {
		began := time.Now()
		c.put(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"` + s.name + `"}}`)
		got := c.next()
		if d := time.Since(began); s.name == "good:text" && d > time.Second {
			t.Errorf("it took %v", d)
		}
		if strings.Contains(got, `"id":5,`) {
			got = c.next()
		}
		if !strings.Contains(got, s.want) {
			t.Errorf("%s: %s", s.name, got)
		}
	}
}

// TestHostileClient has a client say what no client should.
func TestHostileClient(t *testing.T) {
	c := open(t, Config{Limits: wire.Limits{MaxRequest: 2 << 20}}, `{"k": `+server(t, "well", `{"name":"text"},{"name":"hangs"}`)+`}`)
	c.call("k:text")
	for _, s := range []struct{ line, want string }{
		{"garbage", `"id":null,"error":{"code":-32700,`},
		{"\x00\xff", `"code":-32700,`},
		{`[]`, `"code":-32600,`},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `"code":-32600,`},
		{`7`, `"code":-32600,`},
		{`{"jsonrpc":"2.0","id":1}`, `"code":-32600,`},
		{`{"jsonrpc":"2.0","id":null,"method":"ping"}`, `"code":-32600,`},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, `"code":-32600,`},
		{`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, `"code":-32600,`},
		{`{"jsonrpc":"2.0","id":1,"method":""}`, `"code":-32600,`},
		{`{"jsonrpc":"2.0","id":1,"method":"x"}`, `"id":1,"error":{"code":-32601,"message":"Method not found: x"}`},
		{`{"jsonrpc":"2.0","id":1,"method":"hutch/lost"}`, `"code":-32601,`},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize"}`, `"code":-32602,`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, `"code":-32602,`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}`, `"code":-32602,`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}`, `"code":-32602,`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":":"}}`, `"code":-32601,"message":"Tool not found: :"`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"k:"}}`, `"code":-32601,"message":"Tool not found: k:"`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}`, `"code":-32602,`},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`, `"code":-32700,`},
		{`{"jsonrpc":"2.0","id":8,"method":"ping","params":{"x":"` + strings.Repeat("x", 3<<20) + `"}}`, `"id":8,"error":{"code":-32600,"message":"invalid request: message of`},
	} {
		c.put(s.line)
		if got := c.next(); !strings.Contains(got, s.want) {
			t.Errorf("%.80s: %s", s.line, got)
		}
	}
	for _, line := range []string{`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`, `{"jsonrpc":"2.0","method":"x"}`} {
		c.put(line) // which nothing answers
	}
	c.put(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"k:hangs"}}`)
	c.put(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"k:text"}}`)
	if got := c.next(); !strings.Contains(got, `"code":-32600,"message":"invalid request: the id 1 is of a request under way"`) {
		t.Error(got)
	}
	for i := range maxInFlight {
		c.put(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"k:hangs"}}`, i+2))
	}
	if got := c.next(); !strings.Contains(got, `"code":-32005`) {
		t.Error(got)
	}
}

// TestAgain has a server that died be there again without being asked for.
func TestAgain(t *testing.T) {
	c := open(t, Config{}, `{"k": `+server(t, "well", `{"name":"dies"},{"name":"text"}`)+`}`)
	for range 3 {
		if got := c.call("k:dies"); !strings.Contains(got, "the server died (exit status 4)") {
			t.Error(got)
		}
		if got := c.call("k:text"); got != answers["text"] {
			t.Error(got)
		}
	}
}

// TestMadeUp has an aggregator that somebody has taken over tell of a server that the
// file does not have.
func TestMadeUp(t *testing.T) {
	n := newNames([]Server{{Key: "k", Server: wire.Server{Name: "k"}}}, ":", false)
	got := n.arrange(wire.Tools, []wire.Item{{Server: "made up", Original: "x"}, {Server: "k", Original: "x"}})
	if len(got) != 1 || got[0].Name != "k:x" {
		t.Errorf("%+v", got)
	}
	var out output
	f := newFace(Config{Separator: ":", All: true}, &out, func() {})
	f.notified(wire.Notification{Server: "made up", Method: "notifications/resources/updated", Params: []byte(`{"uri":"x"}`)})
	if out.Len() > 0 {
		t.Errorf("%s", &out)
	}
}
