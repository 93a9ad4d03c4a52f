package mcpd

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/mcpd/policy"
)

// oneState replaces the requestState, which is random.
var oneState = regexp.MustCompile(`"hutch:[A-Z2-7]+"`)

// stateOf returns the requestState of a result, with its quotes.
func stateOf(result []byte) string { return string(rawjson.Get(result, "requestState")) }

// An older server's requests are the results of a newer client, whose answers
// they get when it asks again.
func TestInputRequired(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	g := st.dial(t, 1) // in which the host can ask a guest nothing
	able := offering(`{"sampling":{},"elicitation":{},"roots":{}}`)
	for _, tt := range []struct{ tool, asked, answer, got string }{
		{"sample", `{"1":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":9007199254740993}}}`,
			`{"role":"assistant","n":9007199254740993}`, `"content":[],"answer":{"role":"assistant","n":9007199254740993}}`},
		{"elicit", `{"1":{"method":"elicitation/create","params":{"message":"who?"}}}`, `{"action":"decline"}`, `"answer":{"action":"decline"}`},
		{"roots", `{"1":{"method":"roots/list"`, `{"roots":[]}`, `"answer":{"roots":[]}`},
	} {
		first := g.ok("tools/call", fmt.Sprintf(`{"name":"one__%s","arguments":{"a":1,"b":[2]},%s}`, tt.tool, able))
		if got := oneState.ReplaceAllString(string(first), `"S"`); !strings.HasPrefix(got, `{"_meta":{"io.modelcontextprotocol/serverInfo":`) ||
			!strings.Contains(got, `"resultType":"input_required","inputRequests":`+tt.asked) || !strings.Contains(got, `,"requestState":"S"}`) {
			t.Errorf("%s: %s", tt.tool, got)
		}
		state := stateOf(first)
		for _, wrong := range []string{
			`{"name":"one__` + tt.tool + `","arguments":{"a":2,"b":[2]},"requestState":` + state + `,` + able + `}`, // other arguments
			`{"name":"one__echo","arguments":{"a":1,"b":[2]},"requestState":` + state + `,` + able + `}`,            // another tool
			`{"name":"one__` + tt.tool + `","arguments":{"a":1,"b":[2]},"requestState":` + state + `,` + offering(`{"sampling":{}}`) + `}`,
			`{"name":"one__` + tt.tool + `","arguments":{"a":1,"b":[2]},"requestState":"hutch:AAAA",` + able + `}`,
		} {
			g.fails("tools/call", wrong, jsonrpc.CodeParams, "requestState")
		}
		st.dial(t, 1).fails("tools/call", `{"name":"one__`+tt.tool+`","arguments":{"a":1,"b":[2]},"requestState":`+state+`,`+able+`}`, jsonrpc.CodeParams, "requestState")
		// Without the answer it is asked again, by another state.
		second := g.ok("tools/call", fmt.Sprintf(`{"arguments":{"b":[2], "a":1},"name":"one__%s","requestState":%s,"inputResponses":{"x":{},"1":7},%s}`, tt.tool, state, able))
		if !strings.Contains(string(second), tt.asked) || stateOf(second) == state {
			t.Errorf("%s without an answer: %s", tt.tool, second)
		}
		g.fails("tools/call", fmt.Sprintf(`{"name":"one__%s","arguments":{"a":1,"b":[2]},"requestState":%s,"inputResponses":{"1":%s},%s}`, tt.tool, state, tt.answer, able), jsonrpc.CodeParams, "requestState")
		last := g.ok("tools/call", fmt.Sprintf(`{"name":"one__%s","arguments":{"a":1,"b":[2]},"requestState":%s,"inputResponses":{"1":%s},%s}`, tt.tool, stateOf(second), tt.answer, able))
		if !strings.HasPrefix(string(last), `{"resultType":"complete",`) || !strings.Contains(string(last), tt.got) {
			t.Errorf("%s: %s, want %s", tt.tool, last, tt.got)
		}
	}
	// What the client does not offer it is not asked for.
	if got := g.ok("tools/call", `{"name":"one__sample",`+offering(`{"roots":{}}`)+`}`); !strings.Contains(string(got), "-32601") {
		t.Errorf("not offered: %s", got)
	}
	if n := st.exchangeBytes.Load(); n != 0 {
		t.Errorf("%d calls wait for clients", n)
	}
}

// What servers ask, and what they are answered, is judged in the one form as in
// the other.
func TestInputRequiredPolicy(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	var seen []string
	st.decideBy(func(_ context.Context, r *policy.Event) policy.Decision {
		switch {
		case r.On == policy.OnAsk && r.Method == "sampling/createMessage":
			return policy.Decision{Action: policy.Block, Rule: "asks", Reason: "servers do not ask"}
		case strings.Contains(string(r.Answer), "secret"):
			return policy.Decision{Action: policy.Block, Rule: "answers", Reason: "that stays here"}
		}
		seen = append(seen, string(r.On)+" "+r.Method)
		return policy.Decision{Action: policy.Allow}
	})
	g := st.dial(t, 2)
	able := offering(`{"sampling":{},"elicitation":{}}`)
	if got := string(g.ok("tools/call", `{"name":"one__sample",`+able+`}`)); !strings.Contains(got, "blocked by policy: asks: servers do not ask") || strings.Contains(got, "input_required") {
		t.Errorf("blocked: %s", got)
	}
	// It may not ask in the way of a newer one either, nor in two ways at once.
	const asks = `"inputRequests":{"q":{"method":"sampling/createMessage","params":{}}}`
	for result, want := range map[string]string{
		`{"resultType":"input_required",` + asks + `}`:                                                              "blocked by policy: asks: servers do not ask",
		`{"resultType":"input_required","inputRequests":{},` + asks + `}`:                                           "ambiguous member",
		`{"resultType":"input_required",` + asks + `,"resultType":"complete"}`:                                      "ambiguous member",
		`{"resultType":"input_required","inputRequests":[{"method":"sampling/createMessage"}]}`:                     "its inputRequests are no object",
		`{"resultType":"input_required","inputRequests":{"q":{"method":"sampling/createMessage","Method":"ping"}}}`: "ambiguous member",
		`{"resultType":"input_required","inputRequests":{"q":1}}`:                                                   "the answer of the server",
	} {
		m := g.wait(g.send(g.request("tools/call", `{"name":"one__sample","arguments":{"result":`+result+`},`+able+`}`)))
		if m.Error == nil || !strings.Contains(m.Error.Message, want) {
			t.Errorf("%s: %s %+v, want %s", result, m.Result, m.Error, want)
		}
	}
	seen = nil
	first := g.ok("tools/call", `{"name":"one__elicit",`+able+`}`)
	last := string(g.ok("tools/call", `{"name":"one__elicit","requestState":`+stateOf(first)+`,"inputResponses":{"1":{"action":"accept","content":{"x":"secret"}}},`+able+`}`))
	if !strings.Contains(last, "blocked by policy: answers: that stays here") || strings.Contains(last, "secret") {
		t.Errorf("answer: %s", last)
	}
	st.decideBy(func(_ context.Context, r *policy.Event) policy.Decision {
		if r.On == policy.OnRequest {
			return policy.Decision{Action: policy.Rewrite, Rewritten: []byte(`{"other":true}`)}
		}
		return policy.Decision{Action: policy.Allow}
	})
	first = g.ok("tools/call", `{"name":"one__elicit","arguments":{"a":1},`+able+`}`)
	g.ok("tools/call", `{"name":"one__elicit","arguments":{"a":1},"requestState":`+stateOf(first)+`,"inputResponses":{"1":{"action":"cancel"}},`+able+`}`)
	if got, want := strings.Join(seen, ", "), "mcp.request tools/call, mcp.ask elicitation/create, mcp.response tools/call, mcp.response tools/call"; got != want {
		t.Errorf("judged: %s, want %s", got, want)
	}
}

// Calls that wait for clients are bounded, and end with their session.
func TestInputRequiredBounds(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	g := st.dial(t, 2)
	able := offering(`{"elicitation":{}}`)
	for range maxExchanges {
		g.ok("tools/call", `{"name":"one__elicit",`+able+`}`)
	}
	g.fails("tools/call", `{"name":"one__elicit",`+able+`}`, jsonrpc.CodeBusy, "too many calls wait")
	if n := st.exchangeBytes.Load() / exchangeCost; n != maxExchanges {
		t.Errorf("%d calls wait, want %d", n, maxExchanges)
	}
	g.conn.Close()
	for st.Sessions() > 0 || st.exchangeBytes.Load() > 0 { // what a server asked ends a moment later
		st.ServersText() // takes its time
	}
}

// A listen is told what it asked for, each by its own id, and nothing before it is
// acknowledged.
func TestListen(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	g := st.dial(t, 2)
	me := offering(`{}`)
	listen := func(id, filter string) chan reply {
		return g.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"subscriptions/listen","params":{"notifications":%s,%s}}`, id, filter, me))
	}
	g.ok("tools/list", `{`+me+`}`)
	for _, tt := range []struct{ id, filter, agreed string }{
		{`1`, `{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["capsem://one/test://one/one","capsem://none/x",5]}`,
			`{"toolsListChanged":true,"resourceSubscriptions":["capsem://one/test://one/one"]}`},
		{`"two"`, `{"resourcesListChanged":true,"taskIds":null}`, `{"resourcesListChanged":true}`},
	} {
		listen(tt.id, tt.filter)
		want := `{"_meta":{"io.modelcontextprotocol/subscriptionId":` + tt.id + `},"notifications":` + tt.agreed + `}`
		if got := g.note("notifications/subscriptions/acknowledged"); string(got.Params) != want {
			t.Errorf("acknowledged: %s, want %s", got.Params, want)
		}
	}
	g.ok("tools/call", `{"name":"one__touch",`+me+`}`)
	g.ok("tools/call", `{"name":"one__grow",`+me+`}`)
	first := `{"_meta":{"io.modelcontextprotocol/subscriptionId":1}`
	if got := g.note("notifications/resources/updated"); string(got.Params) != first+`,"uri":"capsem://one/test://one/one","odd":1}` {
		t.Errorf("updated: %s", got.Params)
	}
	if got := g.note("notifications/tools/list_changed"); string(got.Params) != first+`}` {
		t.Errorf("list_changed: %s", got.Params)
	}
	for _, tt := range []struct{ filter, text string }{{`[]`, "notifications"}, {`{"x":"` + strings.Repeat("x", maxFilter) + `"}`, "at most"}} {
		g.fails("subscriptions/listen", `{"notifications":`+tt.filter+`,`+me+`}`, jsonrpc.CodeParams, tt.text)
	}
	// One that is cancelled is told of nothing any more, and not answered.
	g.notify("notifications/cancelled", `{"requestId":1}`)
	for len(st.listensFor("", "notifications/tools/list_changed")) > 0 {
		g.ok("tools/list", `{`+me+`}`)
	}
	for _, row := range st.lines(1) {
		if row["request_id"] == "1" && row["method"] == "subscriptions/listen" && (row["decision"] != "allowed" || row["outcome"] == "error" || row["outcome"] == "interrupted") {
			t.Errorf("row: %v", row)
		}
	}
	// One that still listens when the guest has said all is answered.
	done := listen(`"three"`, `{}`)
	g.note("notifications/subscriptions/acknowledged")
	g.conn.(interface{ CloseWrite() error }).CloseWrite()
	if m := g.wait(done); !strings.Contains(string(m.Result), `{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"three"}}`) {
		t.Errorf("end: %s", m.Result)
	}
}

func TestListenBounds(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, nil)
	g := st.dial(t, 2)
	for range maxListens {
		g.send(g.request("subscriptions/listen", `{"notifications":{"toolsListChanged":true},`+offering(`{}`)+`}`))
		g.note("notifications/subscriptions/acknowledged")
	}
	g.fails("subscriptions/listen", `{"notifications":{},`+offering(`{}`)+`}`, jsonrpc.CodeBusy, "too many")
	g.conn.Close()
	for st.Sessions() > 0 {
		st.ServersText()
	}
	if n := len(st.listens); n != 0 {
		t.Errorf("%d listens after the session's end", n)
	}
}

// Log messages come to a newer client only for a request that asks for them.
func TestStatelessLog(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	g := st.dial(t, 2)
	level := func(name string) string {
		return strings.Replace(offering(`{}`), "{", `{"io.modelcontextprotocol/logLevel":"`+name+`",`, 1)
	}
	for meta, want := range map[string]int{offering(`{}`): 0, level("warning"): 1, level("debug"): 2, level("error"): 0} {
		g.ok("tools/call", `{"name":"one__log",`+meta+`}`)
		var got []reply
		for len(g.notes) > 0 {
			if m := <-g.notes; m.Method == "notifications/message" {
				got = append(got, m)
			}
		}
		if len(got) != want {
			t.Errorf("%s: %d log messages, want %d", meta, len(got), want)
		}
	}
}

// What waits is bounded by the bytes of its requests, over all sessions.
func TestExchangeBytes(t *testing.T) {
	e := New(Config{})
	defer e.Close()
	a, b := newSession(e, nil), newSession(e, nil)
	large, small := &exchange{call: &call{sent: maxExchangeBytes}}, &exchange{call: &call{sent: 1}}
	if !a.exchanges.add(e, "large", large) || b.exchanges.add(e, "small", small) {
		t.Error("one more waits than there is room for")
	}
	if a.exchanges.remove(e, "large") != large || !b.exchanges.add(e, "small", small) || e.exchangeBytes.Load() != exchangeCost {
		t.Errorf("%d bytes wait", e.exchangeBytes.Load())
	}
	e.exchangeBytes.Store(maxExchangeBytes)
	large.session = a
	if _, err := large.ask(t.Context(), wire.ServerRequest{Notification: wire.Notification{Params: []byte("{}")}}); err == nil || err.Code != jsonrpc.CodeBusy || e.exchangeBytes.Load() != maxExchangeBytes {
		t.Errorf("a server asks for more than there is room for: %v", err)
	}
}

func FuzzResume(f *testing.F) {
	f.Add(`{"1":{"action":"accept"}}`, `"hutch:A"`)
	f.Add(`[1]`, `7`)
	f.Add(`{"1":{},"1":{}}`, `"x"`)
	f.Fuzz(func(t *testing.T, responses, state string) {
		m, err := parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","inputResponses":` + responses + `,"requestState":` + state + `}}`))
		if err != nil {
			return
		}
		e := New(Config{})
		defer e.Close()
		s := newSession(e, nil)
		c := &call{session: s, client: &client{revision: jsonrpc.Stateless}, message: m, tool: "x"}
		x := &exchange{session: s, client: c.client, call: c, about: c.about(), news: make(chan struct{}, 1), waiting: map[string]*question{}}
		q := &question{answer: make(chan json.RawMessage, 1)}
		x.waiting["1"] = q
		x.hold()
		for held := range s.exchanges.held {
			s.exchanges.held[statePrefix+"A"] = x
			delete(s.exchanges.held, held)
		}
		if c.resume() == nil && c.exchange != nil && len(q.answer) > 0 {
			if v := <-q.answer; !json.Valid(v) || v[0] != '{' {
				t.Errorf("the server is answered %q", v)
			}
		}
		x.expiry.Stop()
	})
}
