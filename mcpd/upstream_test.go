package mcpd

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
	"hutch/mcpd/frame"
)

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
		runtime.Gosched() // lets a refresh begin
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

// TestDeath has a sandbox end in which servers of two clients run: that is told once. A
// server that dies again, or beside one of another client on the host, is told again.
func TestDeath(t *testing.T) {
	t.Parallel()
	var told []string
	e := New(Config{Trouble: func(kind, text string) { told = append(told, kind+" "+text) }})
	defer e.Close()
	e.rules.Store(newRules([]wire.Server{{Name: "boxed", Program: wire.Program{Sandbox: "box"}}, {Name: "bare"}}, nil))
	for _, tt := range []struct {
		server, client string
		times          int
	}{{"boxed", "a", 1}, {"boxed", "b", 1}, {"boxed", "b", 2}, {"bare", "a", 3}, {"bare", "b", 4}} {
		e.notified(wire.Notification{Method: wire.Lost, Server: tt.server, Client: tt.client, Params: json.RawMessage(`{"reason":"gone"}`)})
		if len(told) != tt.times {
			t.Errorf("%s of %s: told %q", tt.server, tt.client, told)
		}
	}
}
