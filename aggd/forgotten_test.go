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

// amnesiac is a streamableFake that says in ways of its own that it has forgotten a
// session.
type amnesiac struct {
	*streamableFake
	status int    // 0: what the streamableFake says
	body   string // ID stands for the id of the request
	calls  atomic.Int32
	always atomic.Bool // refuses all but initialize
}

func (a *amnesiac) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	method := rawjson.GetString(body, "method")
	a.mu.Lock()
	known := a.sessions[r.Header.Get("Mcp-Session-Id")] && !a.always.Load()
	a.mu.Unlock()
	if r.Method == http.MethodPost && method != "initialize" && method != "server/discover" && !known {
		if strings.HasPrefix(a.body, "{") {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(a.status)
		io.WriteString(w, strings.ReplaceAll(a.body, "ID", string(rawjson.Get(body, "id"))))
		return
	}
	if method == "tools/call" {
		a.calls.Add(1)
	}
	a.streamableFake.ServeHTTP(w, r)
}

func serveAmnesiac(t *testing.T, status int, body string) (*amnesiac, wire.Server) {
	a := &amnesiac{streamableFake: &streamableFake{json: true, sessions: make(map[string]bool)}, status: status, body: body}
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	return a, wire.Server{Name: "s", URL: s.URL, Type: "streamable-http"}
}

// TestForgotten has servers forget the session and say so in all ways that there are:
// it costs one new session each time.
func TestForgotten(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
	}{
		{404, "no session"},
		{410, ""},
		{400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`},
		{400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}`},
		{404, `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":ID}`},
		{400, "Invalid or expired SESSION"},
		{200, `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":ID}`},
		{200, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"unknown session"},"id":null}`},
	} {
		t.Run(fmt.Sprintf("%d %.60s", tt.status, tt.body), func(t *testing.T) {
			a, s := serveAmnesiac(t, tt.status, tt.body)
			h := start(t, Config{}, s)
			h.awaitState("s", wire.Connected)
			for range 3 {
				a.expire()
				wants(t, h.rpc("", "s", "tools/call", `{"name":"x"}`), `"result":{"echo"`)
			}
			if a.made != 4 || a.calls.Load() != 3 {
				t.Errorf("%d sessions and %d calls, want 4 and 3", a.made, a.calls.Load())
			}
			a.always.Store(true) // one more session is tried, and no end of them
			wants(t, h.rpc("", "s", "tools/call", `{"name":"x"}`), `"error"`)
			h.ask("list_servers", "")
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.made > 7 {
				t.Errorf("%d sessions were made", a.made)
			}
		})
	}
}

// TestOwnSessions has a tool that has sessions of its own: its error is passed on, and
// the call not made again.
func TestOwnSessions(t *testing.T) {
	var calls atomic.Int32
	f := &streamableFake{json: true, sessions: make(map[string]bool)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if rawjson.GetString(body, "method") == "tools/call" {
			calls.Add(1)
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Session not found: tab 7"}}`, rawjson.Get(body, "id"))
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		f.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	h := start(t, Config{}, wire.Server{Name: "s", URL: s.URL, Type: "streamable-http"})
	h.awaitState("s", wire.Connected)
	wants(t, h.rpc("", "s", "tools/call", `{"name":"x"}`), `"rpc_error":{"code":-32602,"message":"Session not found: tab 7"}`)
	if calls.Load() != 1 || f.made != 1 {
		t.Errorf("%d calls in %d sessions, want 1 in 1", calls.Load(), f.made)
	}
}

// TestNotRepeated has a call go on while another finds the session gone: nobody knows
// whether the first was done, and it is not made again.
func TestNotRepeated(t *testing.T) {
	var hanging atomic.Int32
	f := &streamableFake{sessions: make(map[string]bool)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"name":"hang"`) {
			hanging.Add(1)
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		f.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	h := start(t, Config{}, wire.Server{Name: "s", URL: s.URL, Type: "streamable-http"})
	h.awaitState("s", wire.Connected)
	answer, _ := h.post("rpc", rpcParams("", "s", "tools/call", `{"name":"hang"}`))
	h.told("hanging")
	f.expire()
	wants(t, h.rpc("", "s", "tools/call", `{"name":"x"}`), `"result":{"echo"`)
	fateIs(t, h.await(answer), wire.Unknown)
	if n := hanging.Load(); n != 1 {
		t.Errorf("the call was made %d times", n)
	}
}

// TestHealthSession has a session be forgotten that nobody uses: a new one is made.
func TestHealthSession(t *testing.T) {
	a, s := serveAmnesiac(t, 400, "Bad Request: No valid session ID provided")
	pinged := make(chan struct{}, 1)
	a.see = func(r *http.Request) {
		if r.ContentLength > 0 && r.ContentLength < 60 { // ping is the shortest
			select {
			case pinged <- struct{}{}:
			default:
			}
		}
	}
	s.Health = wire.Duration(20 * time.Millisecond)
	h := start(t, Config{}, s)
	h.awaitState("s", wire.Connected)
	within(t, "a ping", pinged)
	within(t, "a ping", pinged)
	a.expire()
	for end := time.Now().Add(patience); ; h.ask("list_servers", "") {
		a.mu.Lock()
		made := a.made
		a.mu.Unlock()
		if made == 2 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d sessions were made, want 2", made)
		}
	}
	h.awaitState("s", wire.Connected)
}
