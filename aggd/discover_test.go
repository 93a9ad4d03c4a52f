package aggd

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// Programs that do not know server/discover work at once: one that answers with an
// error, one that never answers, and one that dies of it.
func TestOlderPrograms(t *testing.T) {
	for _, mode := range []string{"plain", "mute", "touchy"} {
		t.Run("mode="+mode, func(t *testing.T) {
			t.Parallel()
			d := stdioServer(t, "s", mode)
			d.ConnectTimeout = wire.Duration(time.Hour) // which nothing waits for
			h := start(t, Config{}, d)
			wants(t, h.rpc("", "s", "tools/call", `{"name":"x","_meta":{"io.modelcontextprotocol/logLevel":"info","a":1}}`), `"echo":{"name":"x","_meta":{"a":1}}`)
			if st := h.status("s"); st.ProtocolVersion != "2025-06-18" {
				t.Errorf("%+v", st)
			}
		})
	}
}

// A statelessFake is a server of 2026-07-28 over HTTP.
type statelessFake struct {
	mu    sync.Mutex
	seen  []string // the headers and the body of each request
	calls int
	shy   bool // refuses the first server/discover
}

func (f *statelessFake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	id, method := string(rawjson.Get(body, "id")), rawjson.GetString(body, "method")
	f.mu.Lock()
	defer f.mu.Unlock()
	var headers []string
	for name, value := range r.Header {
		if strings.HasPrefix(name, "Mcp-") {
			headers = append(headers, name+": "+value[0])
		}
	}
	slices.Sort(headers)
	f.seen = append(f.seen, r.Method+" "+method+" "+strings.Join(headers, ", "))
	w.Header().Set("Content-Type", "application/json")
	refuse := func(status, code int, text string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, id, code, text)
	}
	result := func(text string) { fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, text) }
	meta := rawjson.Get(body, "params", "_meta")
	switch {
	case r.Method != "POST" || rawjson.GetString(meta, jsonrpc.MetaRevision) != jsonrpc.Stateless ||
		rawjson.Get(meta, jsonrpc.MetaCapabilities) == nil || r.Header.Get("Mcp-Protocol-Version") != jsonrpc.Stateless:
		refuse(400, jsonrpc.CodeHeader, "no revision")
	case method == "server/discover" && f.shy:
		f.shy = false
		w.WriteHeader(400)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"not yet","data":{"supported":["2026-07-28"],"requested":"2026-07-28"}}}`, id)
	case method == "server/discover":
		result(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"public"}`)
	case method == "tools/list":
		result(`{"resultType":"complete","tools":[
			{"name":"t","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"in":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}}},
			{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}}]}`)
	case method == "tools/call":
		if f.calls++; f.calls == 1 {
			refuse(400, jsonrpc.CodeHeader, "mismatch")
			return
		}
		result(`{"resultType":"complete","got":` + string(rawjson.Get(body, "params", "arguments")) + `}`)
	default:
		refuse(404, jsonrpc.CodeMethod, "method not found")
	}
}

// Over HTTP, 2026-07-28 needs no session, and headers repeat what a request says.
func TestStatelessHTTP(t *testing.T) {
	f := &statelessFake{}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	h := start(t, Config{}, wire.Server{Name: "s", URL: s.URL})
	h.awaitState("s", wire.Connected)
	if list := h.ask("list_tools", ""); !strings.Contains(list, `"s__t"`) || strings.Contains(list, "s__bad") {
		t.Errorf("tools: %s", list)
	}
	wants(t, h.rpc("", "s", "tools/call", `{"name":"t","arguments":{"region":"ä","in":{"n":42},"x":9007199254740993}}`),
		`"stateless":true,"result":{"resultType":"complete","got":{"region":"ä","in":{"n":42},"x":9007199254740993}}`)
	wants(t, h.rpc("", "s", "nothing/there", `{}`), `"rpc_error":{"code":-32601,"message":"method not found"}`)
	wants(t, h.rpc("", "s", "logging/setLevel", `{"level":"info"}`), `"result":{}`)
	f.mu.Lock()
	defer f.mu.Unlock()
	const call = "POST tools/call Mcp-Method: tools/call, Mcp-Name: t, Mcp-Param-N: 42, Mcp-Param-Region: =?base64?w6Q=?=, Mcp-Protocol-Version: 2026-07-28"
	want := []string{
		"POST server/discover Mcp-Method: server/discover, Mcp-Protocol-Version: 2026-07-28",
		"POST tools/list Mcp-Method: tools/list, Mcp-Protocol-Version: 2026-07-28",
		call, // refused: the tool may have changed
		"POST tools/list Mcp-Method: tools/list, Mcp-Protocol-Version: 2026-07-28",
		call,
		"POST nothing/there Mcp-Method: nothing/there, Mcp-Protocol-Version: 2026-07-28",
	}
	if !slices.Equal(f.seen, want) {
		t.Errorf("seen:\n%s", strings.Join(f.seen, "\n"))
	}
}

func TestHeaderValues(t *testing.T) {
	for in, want := range map[string]string{
		"us-west1": "us-west1", "Hello, 世界": "=?base64?SGVsbG8sIOS4lueVjA==?=", " padded ": "=?base64?IHBhZGRlZCA=?=",
		"line1\nline2": "=?base64?bGluZTEKbGluZTI=?=", "=?base64?literal?=": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", "": "",
	} {
		if got := headerValue(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{`"x"`: "x", `true`: "true", `-7`: "-7", `42.0`: "42", `1e3`: "1000", `null`: "", `{}`: "", `1.5`: "", ``: ""} {
		if got, _ := argument([]byte(in)); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func TestHeadersOf(t *testing.T) {
	for _, tt := range []struct{ schema, want string }{
		{`{}`, "[]"},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"properties":{"c":{"type":"boolean","x-mcp-header":"C"}}}}}`, "[{A [a]} {C [b c]}]"},
		{`{"properties":{"x-mcp-header":{"type":"string"}}}`, "[]"},
		{`{"properties":{"a":{"default":{"x-mcp-header":"A"},"enum":[{"x-mcp-header":1}]}}}`, "[]"},
		{`{"x-mcp-header":"A"}`, "error"},
		{`{"properties":{"a":{"type":"string","x-mcp-header":""}}}`, "error"},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"A B"}}}`, "error"},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"A\r\nB"}}}`, "error"},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`, "error"},
		{`{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`, "error"},
		{`{"properties":{"a":{"items":{"type":"string","x-mcp-header":"A"}}}}`, "error"},
		{`{"oneOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`, "error"},
		{`{"$defs":{"a":{"type":"string","x-mcp-header":"A"}}}`, "error"},
		{strings.Repeat(`{"properties":{"a":`, 40) + `1` + strings.Repeat(`}}`, 40), "error"},
	} {
		found, err := headersOf([]byte(tt.schema))
		got := fmt.Sprint(found)
		if err != nil {
			got = "error"
		}
		if got != tt.want {
			t.Errorf("%.100s: %s, want %s", tt.schema, got, tt.want)
		}
	}
}

func FuzzHeadersOf(f *testing.F) {
	f.Add([]byte(`{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}`), []byte(`{"a":"b"}`))
	f.Fuzz(func(t *testing.T, schema, args []byte) {
		if rawjson.Check(schema) != nil || rawjson.Check(args) != nil {
			return
		}
		found, err := headersOf(schema)
		if err != nil {
			return
		}
		h := http.Header{}
		for _, p := range found {
			if value, ok := argument(rawjson.Get(args, p.path...)); ok {
				h.Set(paramHeader+p.name, headerValue(value))
			}
		}
		for name, values := range h {
			if strings.ContainsAny(name+values[0], "\r\n\x00") || strings.ContainsFunc(name, notInToken) {
				t.Errorf("header %q: %q", name, values)
			}
		}
	})
}

func TestUnmark(t *testing.T) {
	for in, want := range map[string]string{
		`{"uri":"a","_meta":{"io.modelcontextprotocol/subscriptionId":7}}`:             `{"uri":"a"}`,
		`{"_meta":{"io.modelcontextprotocol/subscriptionId":7,"b":[1e400]},"uri":"a"}`: `{"_meta":{"b":[1e400]},"uri":"a"}`,
		`{"uri":"a"}`: `{"uri":"a"}`,
	} {
		if got := unmark([]byte(in)); string(got) != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// A server that refuses what it says that it supports is asked once more.
func TestDiscoverAgain(t *testing.T) {
	s := httptest.NewServer(&statelessFake{shy: true})
	t.Cleanup(s.Close)
	h := start(t, Config{}, wire.Server{Name: "s", URL: s.URL})
	if st := h.awaitState("s", wire.Connected); st.ProtocolVersion != jsonrpc.Stateless {
		t.Errorf("%+v", st)
	}
}
