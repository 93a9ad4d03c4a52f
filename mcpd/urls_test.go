package mcpd

import (
	"fmt"
	"strings"
	"testing"

	"hutch/aggd/rawjson"
	"hutch/mcpd/frame"
)

// A client of 2026-07-28 is asked to open the URLs for which an older server has an
// error of its own, and its call goes on.
func TestURLError(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("tasker"))
	g := st.dial(t, 2)
	able := offering(`{"elicitation":{"url":{}}}`)
	more := ""
	for i := range 2 {
		got := g.ok("tools/call", `{"name":"tasker__ask",`+more+able+`}`)
		want := fmt.Sprintf(`"inputRequests":{"%d":{"method":"elicitation/create","params":{"mode":"url","elicitationId":"e","url":"http://x/%[1]d","message":"m"}}}`, i+1)
		if !strings.Contains(string(got), want) {
			t.Fatalf("asked %s, want %s", got, want)
		}
		more = fmt.Sprintf(`"requestState":%s,"inputResponses":{"%d":{"action":"accept"}},`, stateOf(got), i+1)
	}
	if got := string(g.ok("tools/call", `{"name":"tasker__ask",`+more+able+`}`)); !strings.Contains(got, `"text":"opened"`) {
		t.Errorf("opened: %s", got)
	}
	// Who does not want to, or cannot, has the error.
	state := stateOf(g.ok("tools/call", `{"name":"tasker__ask",`+able+`}`))
	g.fails("tools/call", `{"name":"tasker__ask","requestState":`+state+`,"inputResponses":{"1":{"action":"decline"}},`+able+`}`, -32042, "open it")
	g.ok("tools/call", `{"name":"tasker__slow",`+able+`}`)
	st.hello(t, 2, `{"elicitation":{"url":{}}}`).fails("tools/call", `{"name":"tasker__ask"}`, -32042, "open it")
}

// A server of 2026-07-28 has an older client open a URL, which knows it by an id.
func TestURLOfNewer(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("newtasker"))
	g := st.hello(t, 2, `{"elicitation":{"url":{}}}`)
	ch := g.send(g.request("tools/call", `{"name":"newtasker__ask"}`))
	f := <-g.asks
	if id := rawjson.GetString(f.Payload, "params", "elicitationId"); id == "" || rawjson.GetString(f.Payload, "params", "url") != "http://x/" {
		t.Errorf("asked: %s", f.Payload)
	}
	g.w.WriteFrame(frame.Frame{Version: f.Version, Flags: f.Flags, Stream: f.Stream, Process: f.Process,
		Payload: []byte(`{"jsonrpc":"2.0","id":` + string(rawjson.Get(f.Payload, "id")) + `,"result":{"action":"accept"}}`)})
	if got := string(g.wait(ch).Result); !strings.Contains(got, `"inputResponses":{"u":{"action":"accept"}},"requestState":"hutch:AAAA"`) {
		t.Errorf("got %s", got)
	}
}

// What a server keeps in a requestState comes back to it, even if it looks like one
// of the endpoint's own, as it does where another endpoint is the server.
func TestForeignState(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("newtasker"))
	g := st.dial(t, 2)
	able := offering(`{"elicitation":{"url":{}}}`)
	state := stateOf(g.ok("tools/call", `{"name":"newtasker__ask",`+able+`}`))
	got := string(g.ok("tools/call", `{"name":"newtasker__ask","requestState":`+state+`,"inputResponses":{"u":{"action":"accept"}},`+able+`}`))
	if !strings.Contains(got, `"requestState":"hutch:AAAA"`) {
		t.Errorf("got %s", got)
	}
}
