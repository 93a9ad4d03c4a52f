package mcpd

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"testing"

	"hutch/aggd/rawjson"
)

func init() { otherServers["forgetful"] = serveForgetful }

// serveForgetful is a server that does an unsubscribe only when a subscribe came
// after it, and tells of the resource at the subscribe that comes next. Of "test://no"
// it does not tell.
func serveForgetful() int {
	in := bufio.NewScanner(os.Stdin)
	var held []byte // the id of the unsubscribe
	for told := false; in.Scan(); {
		id, result := rawjson.Get(in.Bytes(), "id"), `{}`
		switch method := rawjson.GetString(in.Bytes(), "method"); {
		case id == nil:
			continue
		case method == "initialize":
			result = `{"protocolVersion":"2025-06-18","capabilities":{"resources":{"subscribe":true}},"serverInfo":{"name":"t","version":"1"}}`
		case method == "resources/list":
			result = `{"resources":[]}`
		case method == "resources/unsubscribe":
			held = slices.Clone(id)
			fmt.Println(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://a/held"}}`)
			continue
		case method == "resources/subscribe" && rawjson.GetString(in.Bytes(), "params", "uri") == "test://no":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no"}}`+"\n", id)
			continue
		case method == "resources/subscribe" && told:
			fmt.Println(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://a/new"}}`)
		case method == "resources/subscribe" && held != nil:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", id)
			id, told = held, true
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result)
	}
	return 0
}

// An unsubscribe under way, or that of a session that ends, takes nothing from who
// subscribes meanwhile.
func TestSubscribeAgain(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(g *guest){
		"unsubscribe": func(g *guest) { g.send(g.request("resources/unsubscribe", `{"uri":"capsem://forgetful/test://a"}`)) },
		"hangup":      func(g *guest) { g.conn.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newSite(t, nil, testServers("forgetful"))
			a, b, c := st.hello(t, 1, `{}`), st.hello(t, 1, `{}`), st.hello(t, 1, `{}`)
			a.ok("resources/subscribe", `{"uri":"capsem://forgetful/test://a"}`)
			c.ok("resources/subscribe", `{"uri":"capsem://forgetful/test://a/held"}`)
			end(a)
			c.note("notifications/resources/updated") // it is under way
			b.ok("resources/subscribe", `{"uri":"capsem://forgetful/test://a"}`)
			if n := b.note("notifications/resources/updated"); string(n.Params) != `{"uri":"capsem://forgetful/test://a/new"}` {
				t.Errorf("told of %s", n.Params)
			}
		})
	}
}

// A subscribe that fails leaves what the session had.
func TestSubscribeFails(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("forgetful"))
	g, of := st.hello(t, 1, `{}`), topic{"", "forgetful", "test://no"}
	subscribe := func() { g.fails("resources/subscribe", `{"uri":"capsem://forgetful/test://no"}`, -32000, "no") }
	if subscribe(); st.subs.wanted(of) {
		t.Error("there is a subscription that failed")
	}
	st.subs.add(of, st.each(func(*session) bool { return true })[0], "u")
	if subscribe(); !st.subs.wanted(of) {
		t.Error("there is no subscription any more")
	}
}

func TestWithin(t *testing.T) {
	for _, tt := range []struct {
		resource, uri string
		want          bool
	}{
		{"file:///a", "file:///a", true}, {"file:///a", "file:///a/b", true}, {"file:///a", "file:///a?b", true}, {"file:///a", "file:///a#b", true},
		{"file:///a/", "file:///a/b", true}, {"file:///", "file:///a", true},
		{"file:///a", "file:///ab", false}, {"file:///a/", "file:///a", false}, {"file:///a/b", "file:///a", false},
	} {
		if got := within(tt.resource, tt.uri); got != tt.want {
			t.Errorf("%s within %s: %v", tt.uri, tt.resource, got)
		}
	}
}
