package mcpd

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
)

// offering is the _meta of a request of 2026-07-28 whose client has those
// capabilities.
func offering(capabilities string) string {
	return fmt.Sprintf(`"_meta":{%q:"2026-07-28",%q:{"name":"t","version":"1"},%q:%s}`,
		jsonrpc.MetaRevision, jsonrpc.MetaClientInfo, jsonrpc.MetaCapabilities, capabilities)
}

// A client of 2026-07-28 says everything with each request, and needs no session.
func TestStateless(t *testing.T) {
	t.Parallel()
	var revisions sync.Map // that calls are said to be of
	st := newSite(t, func(c *Config) { c.Ended = func(x Ended) { revisions.Store(x.Revision, true) } }, testServers("one"))
	g := st.dial(t, 2)
	own := `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"hutch","title":"hutch","version":`
	for _, tt := range []struct{ method, params, want string }{
		{"server/discover", `{` + offering(`{}`) + `}`, `{"resultType":"complete","ttlMs":0,"cacheScope":"private",` + own},
		{"server/discover", `{` + offering(`{}`) + `}`, `"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"capabilities":{"tools":{"listChanged":true}`},
		{"server/discover", `{` + offering(`{}`) + `}`, `"instructions":"# one\n\nbe kind to one"}`},
		{"tools/list", `{` + offering(`{}`) + `}`, `{"resultType":"complete","ttlMs":0,"cacheScope":"private",` + own},
		{"tools/list", `{` + offering(`{}`) + `}`, `"x-unknown":9007199254740993},"future":{"a":[1.50,"<&>"]}}`},
		{"resources/read", `{"uri":"capsem://one/test://one/one",` + offering(`{}`) + `}`, `{"resultType":"complete","ttlMs":0,"cacheScope":"private",` + own},
		{"resources/read", `{"uri":"capsem://one/test://one/one",` + offering(`{}`) + `}`, `"contents":[{"uri":"test://one/one","text":"content","odd":1e400}]}`},
		{"prompts/get", `{"name":"one__greet",` + offering(`{}`) + `}`, `{"resultType":"complete",` + own},
		{"tools/call", `{"name":"one__echo","arguments":{"n":9007199254740993},` + offering(`{"x":1}`) + `}`, `{"resultType":"complete","content":[{"type":"hologram"`},
		{"prompts/get", `{"x":1,"name":"one__greet",` + offering(`{}`) + `,"y":2}`, `"got":{"x":1,"name":"greet","y":2}}`},
		{"prompts/get", `{"name":"one__greet",` + strings.Replace(offering(`{}`), "{", `{"progressToken":5,"a/b":[1e400],`, 1) + `}`, `,"a/b":[1e400]}}}`},
	} {
		if got := untraced(string(g.ok(tt.method, tt.params))); !strings.Contains(got, tt.want) {
			t.Errorf("%s %s:\n%s, want\n%s", tt.method, tt.params, got, tt.want)
		}
	}
	revisions.Range(func(revision, _ any) bool {
		if revision != jsonrpc.Stateless {
			t.Errorf("a call is said to be of the revision %q", revision)
		}
		return true
	})
	for _, tt := range []struct {
		method, params string
		code           int
		text           string
	}{
		{"ping", `{` + offering(`{}`) + `}`, jsonrpc.CodeMethod, "ping is not in 2026-07-28"},
		{"initialize", `{"protocolVersion":"2025-11-25","capabilities":{},` + offering(`{}`) + `}`, jsonrpc.CodeMethod, "initialize is not in"},
		{"logging/setLevel", `{"level":"info",` + offering(`{}`) + `}`, jsonrpc.CodeMethod, ""},
		{"resources/subscribe", `{"uri":"capsem://one/test://one/one",` + offering(`{}`) + `}`, jsonrpc.CodeMethod, ""},
		{"server/discover", `{}`, jsonrpc.CodeParams, "protocolVersion"},
		{"tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`, jsonrpc.CodeParams, "clientCapabilities"},
		{"tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":[]}}`, jsonrpc.CodeParams, "clientCapabilities"},
		{"tools/list", `{` + strings.Replace(offering(`{}`), "2026-07-28", "2099-01-01", 1) + `}`, jsonrpc.CodeRevision, "2099-01-01"},
		{"tools/list", `{` + strings.Replace(offering(`{}`), `"2026-07-28"`, "7", 1) + `}`, jsonrpc.CodeRevision, "7"},
		{"tools/list", `{` + strings.Replace(offering(`{}`), "{", `{"io.modelcontextprotocol/logLevel":"loud",`, 1) + `}`, jsonrpc.CodeParams, "loud"},
		{"tools/list", `{` + strings.Replace(offering(`{}`), "{", `{"io.modelcontextprotocol/protocolVersion":"2025-06-18",`, 1) + `}`, jsonrpc.CodeInvalid, "ambiguous"},
		{"resources/read", `{"uri":"none://x",` + offering(`{}`) + `}`, jsonrpc.CodeParams, "resource not found"},
		{"resources/read", `{"uri":"none://x"}`, jsonrpc.CodeResource, "resource not found"},
	} {
		g.fails(tt.method, tt.params, tt.code, tt.text)
	}
	m := g.do("tools/list", `{`+strings.Replace(offering(`{}`), "2026-07-28", "2099-01-01", 1)+`}`)
	if got := string(m.Error.Data); got != `{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"2099-01-01"}` {
		t.Errorf("data of an unsupported version: %s", got)
	}
	// The same connection may be a session as well.
	old := g.ok("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	if rawjson.Get(old, "resultType") != nil || rawjson.GetString(old, "protocolVersion") != "2025-06-18" {
		t.Errorf("initialize: %s", old)
	}
	if list := g.ok("tools/list", `{}`); rawjson.Get(list, "resultType") != nil || rawjson.Get(list, "_meta") != nil {
		t.Errorf("tools/list of a session: %s", list)
	}
}

func TestDress(t *testing.T) {
	stateless, session := &client{revision: jsonrpc.Stateless}, &client{revision: jsonrpc.Newest}
	info := `"_meta":{"io.modelcontextprotocol/serverInfo":` + string(serverInfo) + `}`
	for _, tt := range []struct {
		by                *client
		method, in, wants string
	}{
		{session, "tools/call", `{"resultType":"x"}`, `{"resultType":"x"}`},
		{stateless, "tools/call", `{}`, `{"resultType":"complete",` + info + `}`},
		{stateless, "tools/call", ` { "content" : [ ] } `, `{"resultType":"complete",` + info + `,"content" : [ ]}`},
		{stateless, "tools/call", `{"_meta":null,"a":1}`, `{"resultType":"complete","_meta":null,"a":1}`},
		{stateless, "tools/call", `{"resultType":"input_required","_meta":{}}`, `{"resultType":"input_required","_meta":{}}`},
		{stateless, "tools/list", `{"cacheScope":"public","ttlMs":5,"_meta":{}}`, `{"resultType":"complete","cacheScope":"private","ttlMs":5,"_meta":{}}`},
		{stateless, "resources/read", `{"resultType":"input_required","_meta":{}}`, `{"resultType":"input_required","_meta":{}}`},
		{stateless, "tools/call", `[1]`, `[1]`},
		{stateless, "tools/call", `{"ResultType":1}`, `{"ResultType":1}`},
	} {
		c := &call{client: tt.by, message: message{Message: jsonrpc.Message{Method: tt.method}}}
		if got := c.dress(json.RawMessage(tt.in)); string(got) != tt.wants {
			t.Errorf("%s %s:\n%s, want\n%s", tt.method, tt.in, got, tt.wants)
		}
	}
}

// The guest does not take all sets of capabilities from those who ask through the
// tree, and those that nobody has are given back with the aggregator.
func TestSetsOfCapabilities(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	say := func(g *guest, n int) {
		g.ok("initialize", fmt.Sprintf(`{"protocolVersion":"2025-11-25","capabilities":{"experimental":{"x%d":{}}}}`, n))
	}
	keys := func(principal string) (n int) {
		for range st.each(func(s *session) bool { return s.principal == principal && s.client.Load().key != "" }) {
			n++
		}
		return n
	}
	for n := range maxKeys + 2 {
		say(st.dial(t, 2), n)
	}
	ann := st.dialAs(t, 2, "ann")
	say(ann, 100)
	if guest, ann := keys(""), keys("ann"); guest != maxGuestKeys || ann != 1 {
		t.Errorf("the guest has %d sets, and ann %d", guest, ann)
	}
	for _, s := range st.each(func(s *session) bool { return s.principal == "" }) {
		s.client.Store(&client{})
	}
	if err := st.Stop(); err != nil {
		t.Fatal(err)
	}
	if len(st.declared) != 1 {
		t.Errorf("%d sets are left", len(st.declared))
	}
}
