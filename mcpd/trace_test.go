package mcpd

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"hutch/aggd/rawjson"
	"hutch/aggd/trace"
)

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
