package aggd

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

func TestStreamable(t *testing.T) {
	for _, asJSON := range []bool{true, false} {
		t.Run(fmt.Sprintf("json=%t", asJSON), func(t *testing.T) {
			f := &streamableFake{json: asJSON}
			s := serveStreamable(t, f)
			h := start(t, Config{}, wire.Server{Name: "s", URL: s.URL})
			h.awaitState("s", wire.Connected)
			params := `{ "name":"x", "big": 12345678901234567890, "u":"<\u00e4>" }`
			line := h.rpc("", "s", "tools/call", params)
			if got := rawjson.Get([]byte(line), "result", "echo"); string(got) != params {
				t.Errorf("params came back as %s, want %s", got, params)
			}
			wants(t, h.rpc("", "s", "nope", ""), `"rpc_error":{"code":-32601,"message":"no <such> method","data":{"big":12345678901234567890}}`)
			if !asJSON {
				line = h.rpc("", "s", "tools/call", `{"name":"progress","_meta":{"progressToken":"mine"}}`)
				wants(t, line, `"token":`)
				wants(t, h.unasked(), `"progressToken":"mine"`, `"progress":1`, `"new":12345678901234567890`)
				wants(t, h.unasked(), `"progressToken":"mine"`, `"progress":2`)
			}
		})
	}
}

// TestTraceHeader has the trace of a request be in the headers, too, if it is valid.
func TestTraceHeader(t *testing.T) {
	const parent, state = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a=b"
	saw := make(chan string, 100)
	f := &streamableFake{see: func(r *http.Request) {
		if r.Method == "POST" {
			saw <- r.Header.Get("Traceparent") + " " + r.Header.Get("Tracestate")
		}
	}}
	h := start(t, Config{}, wire.Server{Name: "s", URL: serveStreamable(t, f).URL})
	h.awaitState("s", wire.Connected)
	for meta, want := range map[string]string{
		`{"traceparent":"` + parent + `","tracestate":"` + state + `"}`: parent + " " + state,
		`{"traceparent":"` + parent + `","tracestate":"x\r\nY: z"}`:     parent + " ",
		`{"traceparent":"rubbish","tracestate":"` + state + `"}`:        " ",
		`{"traceparent":7}`: " ",
	} {
		for len(saw) > 0 {
			<-saw
		}
		h.rpc("", "s", "tools/call", `{"name":"x","_meta":`+meta+`}`)
		if got := <-saw; got != want {
			t.Errorf("%s: the server saw %q, want %q", meta, got, want)
		}
	}
}

func TestSessionExpiry(t *testing.T) {
	f := &streamableFake{}
	h := start(t, Config{}, wire.Server{Name: "s", URL: serveStreamable(t, f).URL})
	h.awaitState("s", wire.Connected)
	for range 3 {
		f.expire()
		wants(t, h.rpc("", "s", "tools/call", `{"name":"x"}`), `"result":{"echo"`)
	}
	if f.made != 4 {
		t.Errorf("%d sessions were made, want 4", f.made)
	}
}

func TestSessionGivenBack(t *testing.T) {
	given := make(chan struct{}, 100)
	f := &streamableFake{see: func(r *http.Request) {
		if r.Method == "DELETE" && r.Header.Get("Mcp-Session-Id") == "session-1" {
			given <- struct{}{}
		}
	}}
	h := start(t, Config{}, wire.Server{Name: "s", URL: serveStreamable(t, f).URL})
	h.awaitState("s", wire.Connected)
	wants(t, h.ask("shutdown", ""), `"ok":true`)
	within(t, "the session", given) // the aggregator does not wait for a slow server
	if n := len(given); n > 0 {
		t.Errorf("the session was given back %d times more", n)
	}
}

// TestListening hears what a server says unasked, and after the stream broke.
func TestListening(t *testing.T) {
	f := &streamableFake{get: make(chan string)}
	h := start(t, Config{}, wire.Server{Name: "s", URL: serveStreamable(t, f).URL})
	h.awaitState("s", wire.Connected)
	f.get <- `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://a"}}`
	wants(t, h.unasked(), `{"notification":{"client":"","server":"s","method":"notifications/resources/updated","params":{"uri":"test://a"},"call":0}}`)
}

// TestListsDoNotWaitAgain has a server that fails, and hangs when it is tried
// again: lists go on without it.
func TestListsDoNotWaitAgain(t *testing.T) {
	again, end := make(chan struct{}), make(chan struct{})
	var tries atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := tries.Add(1)
		if n <= 2 { // of discover and initialize
			http.Error(w, "not yet", http.StatusInternalServerError)
			return
		}
		if n == 3 {
			close(again)
		}
		<-end
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(end) })
	h := start(t, Config{ListWait: time.Hour}, wire.Server{Name: "s", URL: s.URL, ConnectTimeout: wire.Duration(time.Hour)})
	<-again
	wants(t, h.ask("list_tools", ""), `"tools":[]`)
}

// TestResume loses the stream before the answer; the server goes on by event id.
func TestResume(t *testing.T) {
	f := &streamableFake{json: true}
	f.sessions = make(map[string]bool)
	var resumed atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Last-Event-ID") == "e1":
			resumed.Store(true)
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "id: e2\ndata: {\"jsonrpc\":\"2.0\",\"id\":"+r.Header.Get("X-Want")+",\"result\":{\"late\":true}}\n\n")
		case r.Header.Get("Mcp-Session-Id") != "" && r.Method == "POST" && r.Header.Get("X-Break") != "" && r.ContentLength > 90:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "retry: 1\nid: e1\ndata:\n\n")
		default:
			f.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	// after discover, initialize and the five pages of lists, the next id is 8
	h := start(t, Config{}, wire.Server{Name: "s", URL: s.URL, Headers: map[string]string{"X-Break": "1", "X-Want": "8"}})
	h.awaitState("s", wire.Connected)
	line := h.rpc("", "s", "tools/call", `{"name":"x","pad":"`+strings.Repeat("x", 200)+`"}`)
	wants(t, line, `"result":{"late":true}`)
	if !resumed.Load() {
		t.Error("not resumed")
	}
}

// TestRedirect follows a redirect to another path, and none to another server.
func TestRedirect(t *testing.T) {
	asked := make(chan string, 100)
	f := &streamableFake{see: func(r *http.Request) { asked <- r.Header.Get("Authorization") }}
	other := serveStreamable(t, f)
	for _, tt := range []struct {
		to     string
		status int
		why    string
	}{
		{other.URL, http.StatusTemporaryRedirect, "redirected to another server, " + other.URL + ": "},
		{"/moved", http.StatusFound, "drops the message"},
	} {
		first := httptest.NewServer(http.RedirectHandler(tt.to, tt.status))
		t.Cleanup(first.Close)
		h := start(t, Config{}, wire.Server{Name: "s", URL: first.URL, BearerToken: "secret", Type: "streamable-http"})
		wants(t, h.awaitState("s", wire.Failed).Error, tt.why)
	}
	if len(asked) > 0 {
		t.Error("the other server was asked")
	}

	moved := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/old" {
			http.Redirect(w, r, "/new", http.StatusTemporaryRedirect)
			return
		}
		f.ServeHTTP(w, r)
	}))
	t.Cleanup(moved.Close)
	h := start(t, Config{}, wire.Server{Name: "s", URL: moved.URL + "/old", BearerToken: "secret", Type: "streamable-http"})
	h.awaitState("s", wire.Connected)
	if got := <-asked; got != "Bearer secret" {
		t.Errorf("the same server got %q", got)
	}
}

func TestLegacySSE(t *testing.T) {
	for _, kind := range []string{"sse", ""} { // told, and found out
		t.Run("type="+kind, func(t *testing.T) {
			f := &sseFake{}
			s := httptest.NewServer(f)
			t.Cleanup(s.Close)
			h := start(t, Config{}, wire.Server{Name: "s", URL: s.URL + "/sse", Type: kind})
			t.Cleanup(func() { s.CloseClientConnections() })
			h.awaitState("s", wire.Connected)
			wants(t, h.rpc("", "s", "tools/call", `{"name":"progress","_meta":{"progressToken":7}}`), `"result"`)
			wants(t, h.unasked(), `"progressToken":7`, `"call":`)
			answer, _ := h.post("rpc", rpcParams("", "s", "tools/call", `{"name":"hang"}`))
			h.told("hanging")
			f.mu.Lock()
			close(f.hangUp)
			f.mu.Unlock()
			wants(t, h.await(answer), `"error":"connection lost`)
			h.awaitState("s", wire.Connected) // again
			wants(t, h.rpc("", "s", "tools/call", `{"name":"x"}`), `"echo"`)
		})
	}
}

// TestForeignEndpoint keeps the token from a host that the stream names.
func TestForeignEndpoint(t *testing.T) {
	s := httptest.NewServer(&sseFake{endpoint: "http://example.org/messages"})
	t.Cleanup(s.Close)
	h := start(t, Config{}, wire.Server{Name: "s", URL: s.URL + "/sse", Type: "sse", BearerToken: "secret"})
	wants(t, h.awaitState("s", wire.Failed).Error, "another host, example.org")
}

// TestHanging has a server that never answers beside one that does.
func TestHanging(t *testing.T) {
	stuck := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // or the end of the connection goes unseen
		<-r.Context().Done()
	}))
	t.Cleanup(stuck.Close)
	good := serveStreamable(t, &streamableFake{})
	h := start(t, Config{ListWait: 50 * time.Millisecond},
		wire.Server{Name: "stuck", URL: stuck.URL, ConnectTimeout: wire.Duration(300 * time.Millisecond)},
		wire.Server{Name: "kept", URL: stuck.URL, Keep: true, ConnectTimeout: wire.Duration(300 * time.Millisecond)},
		wire.Server{Name: "good", URL: good.URL})
	h.awaitState("good", wire.Connected)
	if names := h.tools(); len(names) != 3 || names[0] != "good__odd" {
		t.Errorf("tools %v", names)
	}
	wants(t, h.rpc("", "good", "tools/call", `{"name":"x"}`), `"echo"`)
	wants(t, h.awaitState("stuck", wire.Failed).Error, "no answer within 300ms")
	if why := h.awaitState("kept", wire.Failed).Error; why != "initialize: no answer within 300ms" {
		t.Errorf("kept: %s", why)
	}
	wants(t, h.rpc("", "stuck", "tools/call", `{"name":"x"}`), `"error":"server stuck is not connected: initialize: no answer within 300ms; connect_timeout in its profile allows more"`)
}

// TestUnreachable has a server that is not there, and then is.
func TestUnreachable(t *testing.T) {
	f := &streamableFake{sessions: make(map[string]bool)}
	address, listen := reserve(t)
	h := start(t, Config{}, wire.Server{Name: "s", URL: "http://" + address + "/?key=hidden"})
	st := h.awaitState("s", wire.Failed)
	wants(t, st.Error, "connection refused")
	if strings.Contains(st.Error, "hidden") {
		t.Errorf("a secret of the url is in %q", st.Error)
	}
	// The connection for these clients is tried only when a call needs it: no
	// try can have begun before the server was there, and fail after.
	client := h.client(`{"sampling":{}}`)
	wants(t, h.rpc(client, "s", "tools/call", `{"name":"x"}`), "connection refused")
	s := httptest.NewUnstartedServer(f)
	s.Listener.Close()
	s.Listener = listen()
	s.Start()
	t.Cleanup(s.Close)
	wants(t, h.rpc(client, "s", "tools/call", `{"name":"x"}`), `"echo"`)
	h.awaitState("s", wire.Connected)
}

func TestStatuses(t *testing.T) {
	for _, c := range []struct {
		status int
		want   string
	}{
		{401, "HTTP 401 Unauthorized: go away"}, {403, "HTTP 403"}, {500, "HTTP 500"}, {404, "HTTP 404"}, {418, "HTTP 418"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "go away", c.status) }))
		h := start(t, Config{}, wire.Server{Name: "s", URL: s.URL})
		wants(t, h.awaitState("s", wire.Failed).Error, c.want)
		t.Cleanup(s.Close)
	}
}

func TestHTTPTooLong(t *testing.T) {
	for _, asJSON := range []bool{true, false} {
		f := &streamableFake{json: asJSON}
		h := start(t, Config{Limits: wire.Limits{MaxResult: 1 << 20}}, wire.Server{Name: "s", URL: serveStreamable(t, f).URL})
		h.awaitState("s", wire.Connected)
		wants(t, h.rpc("", "s", "tools/call", `{"name":"medium"}`), `"error":"the answer of the server: message of `, "over the limit of 1048576")
		wants(t, h.rpc("", "s", "tools/call", `{"name":"x"}`), `"echo"`)
	}
}

// TestNoiseOverHTTP has answers that are none for the request they come for.
func TestNoiseOverHTTP(t *testing.T) {
	for _, asJSON := range []bool{true, false} {
		f := &streamableFake{json: asJSON}
		h := start(t, Config{}, wire.Server{Name: "s", URL: serveStreamable(t, f).URL})
		h.awaitState("s", wire.Connected)
		wants(t, h.rpc("", "s", "tools/call", `{"name":"noise"}`), `"result":{"ok":1}`)
		line := `{"jsonrpc":"2.0","id":ID,"result":{"a":}}`
		wants(t, h.rpc("", "s", "tools/call", fmt.Sprintf(`{"name":"broken","line":%s}`, rawjson.Quote(line))), `"error":"the answer of the server: invalid JSON`)
		line = `{"jsonrpc":"2.0","id":"nobody","result":{}}`
		if asJSON {
			wants(t, h.rpc("", "s", "tools/call", fmt.Sprintf(`{"name":"broken","line":%s}`, rawjson.Quote(line))), `holds no response`)
		}
	}
}

// TestErrorStatus has errors of JSON-RPC come with a status of HTTP that is no
// success, as some servers send them: code, message and data arrive.
func TestErrorStatus(t *testing.T) {
	const rpcError = `{"code":-32042,"message":"<no>","data":{"big":12345678901234567890}}`
	f := &streamableFake{json: true}
	made := serveStreamable(t, f) // for its sessions
	var body, kind atomic.Value
	var status atomic.Int32
	kind.Store("application/json; charset=utf-8")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status.Load() == 0 {
			made.Config.Handler.ServeHTTP(w, r)
			return
		}
		said, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", kind.Load().(string))
		w.WriteHeader(int(status.Load()))
		io.WriteString(w, strings.ReplaceAll(body.Load().(string), "ID", string(rawjson.Get(said, "id"))))
	}))
	t.Cleanup(s.Close)
	h := start(t, Config{}, wire.Server{Name: "s", URL: s.URL})
	h.awaitState("s", wire.Connected)
	for _, c := range []struct {
		status     int
		kind, body string
		want       string
	}{
		{400, "application/json", `{"jsonrpc":"2.0","id":ID,"error":` + rpcError + `}`, `"rpc_error":` + rpcError},
		{500, "application/json", `{"jsonrpc":"2.0","id":null,"error":` + rpcError + `}`, `"rpc_error":` + rpcError},
		{404, "application/json", "{\n\t\"jsonrpc\":\"2.0\",\"id\":ID,\"error\":" + rpcError + "}", `"rpc_error":` + rpcError},
		{429, "application/json", `{"error":"slow down"}`, `"error":"HTTP 429 Too Many Requests: {\"error\":\"slow down\"}","fate":"refused"}`},
		{502, "text/html", `{"jsonrpc":"2.0","id":ID,"error":` + rpcError + `}`, `"error":"HTTP 502 Bad Gateway: {`},
		{400, "application/json", `{"jsonrpc":"2.0","id":ID,"error":{`, `"error":"HTTP 400 Bad Request: {`},
	} {
		kind.Store(c.kind)
		body.Store(c.body)
		status.Store(int32(c.status))
		line := h.rpc("", "s", "tools/call", `{"name":"x"}`)
		wants(t, line, c.want)
		if strings.Contains(c.want, "rpc_error") != strings.Contains(line, "rpc_error") {
			t.Errorf("HTTP %d: %s", c.status, line)
		}
	}
	status.Store(0)
	wants(t, h.rpc("", "s", "tools/call", `{"name":"x"}`), `"echo"`)
	if f.made != 1 {
		t.Errorf("%d sessions were made, want 1", f.made)
	}
}
