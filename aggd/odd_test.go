package aggd

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// TestStuckList has a server never answer one list: its calls and its other lists do
// not wait for that.
func TestStuckList(t *testing.T) {
	h := start(t, Config{}, stdioServer(t, "s", "stuck"))
	wants(t, h.rpc("", "s", "tools/call", `{"name":"x"}`), `"result":{"echo"`)
	if got := h.tools(); len(got) != 3 {
		t.Errorf("the tools are %q", got)
	}
	if st := h.status("s"); st.ToolCount != 3 || !strings.Contains(st.Error, "resources/list: no answer yet") {
		t.Errorf("it is %+v", st)
	}
}

// posted serves what answer says to each request that is posted.
func posted(t *testing.T, answer func(w http.ResponseWriter, method string, id, params []byte)) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		answer(w, rawjson.GetString(body, "method"), rawjson.Get(body, "id"), rawjson.Get(body, "params"))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestEmptyCursor has an empty cursor be one like any other in 2026-07-28, unless the
// server means the end by it.
func TestEmptyCursor(t *testing.T) {
	for _, tt := range []struct {
		pages map[string]string // by cursor
		want  []string
	}{
		{map[string]string{`none`: `"a"},"",`, `""`: `"b"},"z",`, `"z"`: `"c"}`}, []string{"s__a", "s__b", "s__c"}},
		{map[string]string{`none`: `"a"},"",`, `""`: `"a"},"",`}, []string{"s__a"}},
	} {
		url := posted(t, func(w http.ResponseWriter, method string, id, params []byte) {
			result := `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`
			if method == "tools/list" {
				cursor := string(rawjson.Get(params, "cursor"))
				if cursor == "" {
					cursor = "none"
				}
				name, next, more := strings.Cut(tt.pages[cursor], "},")
				result = `{"tools":[{"inputSchema":{"type":"object"},"name":` + strings.TrimSuffix(name, "}") + `}]`
				if more {
					result += `,"nextCursor":` + strings.TrimSuffix(next, ",")
				}
				result += "}"
			}
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
		})
		h := start(t, Config{}, wire.Server{Name: "s", URL: url, Type: "streamable-http"})
		h.awaitState("s", wire.Connected)
		if got := h.tools(); !slices.Equal(got, tt.want) {
			t.Errorf("the tools are %q, want %q", got, tt.want)
		}
	}
}

// TestRefusedInitialized has a server refuse initialized: the error says whose it is,
// and is no answer to the call.
func TestRefusedInitialized(t *testing.T) {
	url := posted(t, func(w http.ResponseWriter, method string, id, _ []byte) {
		switch method {
		case "initialize":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}}`, id)
		case "notifications/initialized":
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request"}}`)
		default:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, id)
		}
	})
	h := start(t, Config{}, wire.Server{Name: "s", URL: url, Type: "streamable-http"})
	h.awaitState("s", wire.Failed)
	line := h.rpc("", "s", "tools/call", `{"name":"x"}`)
	wants(t, line, `"error":"server s is not connected: initialize: HTTP 400 Bad Request`)
	if strings.Contains(line, "rpc_error") {
		t.Errorf("it is an answer: %s", line)
	}
}

// TestMark has servers write a byte order mark before JSON.
func TestMark(t *testing.T) {
	url := posted(t, func(w http.ResponseWriter, method string, id, params []byte) {
		switch method {
		case "initialize":
			fmt.Fprintf(w, "\ufeff"+`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}`, id)
		case "tools/call":
			fmt.Fprintf(w, "\ufeff"+`{"jsonrpc":"2.0","id":%s,"result":{"ok":1}}`, id)
		case "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
		default:
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, "\ufeff"+`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, id)
		}
	})
	h := start(t, Config{}, stdioServer(t, "stdio", "plain"), wire.Server{Name: "http", URL: url, Type: "streamable-http"})
	line := rawjson.Quote("\ufeff" + `{"jsonrpc":"2.0","id":ID,"result":{"ok":1}}`)
	wants(t, h.rpc("", "stdio", "tools/call", fmt.Sprintf(`{"name":"broken","line":%s}`, line)), `"result":{"ok":1}`)
	wants(t, h.rpc("", "http", "tools/call", `{"name":"x"}`), `"result":{"ok":1}`)
	wants(t, h.rpc("", "http", "nope", ``), `"rpc_error":{"code":-32601,"message":"no such method"}`)
}

// TestLateProgress has progress come after the answer: nobody is told of it.
func TestLateProgress(t *testing.T) {
	h := start(t, Config{}, stdioServer(t, "s", "plain"))
	for range 50 {
		h.rpc("", "s", "tools/call", `{"name":"late","_meta":{"progressToken":"mine"}}`)
		h.rpc("", "s", "tools/call", `{"name":"x"}`)
	}
	if len(h.unread) > 0 {
		t.Errorf("it was passed on: %s", h.unasked())
	}
}

// slowly is a stream that brings one byte at a time.
type slowly struct{ s string }

func (r *slowly) Read(p []byte) (int, error) {
	if r.s == "" {
		return 0, io.EOF
	}
	n := copy(p[:1], r.s)
	r.s = r.s[n:]
	return n, nil
}

// TestEventLines has the lines of events end in the three ways that there are.
func TestEventLines(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r"} {
		text := strings.ReplaceAll("\ufeffevent: a\ndata: 1\ndata: 2\n\n: comment\nid: 7\ndata:x\n\n", "\n", end)
		for _, in := range []io.Reader{strings.NewReader(text), &slowly{text}} {
			r := newEventReader(in, 1000)
			a, err1 := r.next()
			b, err2 := r.next()
			_, err3 := r.next()
			if err1 != nil || err2 != nil || err3 != io.EOF || a.name != "a" || string(a.data) != "1\n2" || string(b.data) != "x" || r.lastID != "7" {
				t.Errorf("lines that end with %q: %+v %v, %+v %v, %v", end, a, err1, b, err2, err3)
			}
		}
	}
	in, out := io.Pipe()
	go io.WriteString(out, "data: 1\r\r") // and no more for now
	if e, err := newEventReader(in, 1000).next(); err != nil || string(e.data) != "1" {
		t.Errorf("before what may follow: %+v, %v", e, err)
	}
}
