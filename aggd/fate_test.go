package aggd

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// fateIs checks what the line of an error says of the fate of its request.
func fateIs(t *testing.T, line string, want wire.Fate) {
	t.Helper()
	if got := rawjson.GetString([]byte(line), "fate"); got != string(want) || !strings.Contains(line, `"error"`) {
		t.Errorf("the fate %q, want %q: %.300s", got, want, line)
	}
}

func TestFateStdio(t *testing.T) {
	s := stdioServer(t, "s", "good")
	s.CallTimeout = wire.Duration(2 * time.Second)
	gone := wire.Server{Name: "gone", Program: wire.Program{Command: "/nonexistent"}}
	h := start(t, Config{}, s, gone)
	fateIs(t, h.rpc("", "s", "tools/call", `{"name":"die"}`), wire.Unknown)
	fateIs(t, h.rpc("", "s", "tools/call", `{"name":"hang"}`), wire.Unknown)
	fateIs(t, h.rpc("", "s", "tools/call", `{"name":"big"}`), wire.Unknown)  // an answer that cannot be taken
	fateIs(t, h.rpc("", "s", "tools/call", `{"name":"fail"}`), wire.NotSent) // which is told by an answer
	fateIs(t, h.rpc("", "gone", "tools/call", `{"name":"x"}`), wire.NotSent)
	fateIs(t, h.rpc("", "nobody", "tools/call", `{"name":"x"}`), wire.NotSent)
	answer, id := h.post("rpc", rpcParams("", "s", "tools/call", `{"name":"hang"}`))
	h.told("hanging")
	h.told("hanging")
	h.ask("cancel", `{"id":`+id+`,"reason":"bored"}`)
	fateIs(t, h.await(answer), wire.Unknown)
}

// TestFateHTTP has a server answer calls in ways that are none of MCP.
func TestFateHTTP(t *testing.T) {
	f := &streamableFake{json: true, sessions: make(map[string]bool)}
	for name, tt := range map[string]struct {
		answer func(http.ResponseWriter)
		want   wire.Fate
	}{
		"hangs up":    {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, wire.Unknown},
		"forbids":     {func(w http.ResponseWriter) { http.Error(w, "no", http.StatusForbidden) }, wire.Refused},
		"no backend":  {func(w http.ResponseWriter) { http.Error(w, "gone", http.StatusBadGateway) }, wire.Unknown},
		"no response": {func(w http.ResponseWriter) { io.WriteString(w, "well") }, wire.Unknown},
		"forgets":     {func(w http.ResponseWriter) { http.Error(w, "no session", http.StatusNotFound) }, wire.Refused},
		"half": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, `{"jsonrpc":"2.0",`)
		}, wire.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if rawjson.GetString(body, "method") == "tools/call" {
					tt.answer(w)
					return
				}
				r.Body = io.NopCloser(strings.NewReader(string(body)))
				f.ServeHTTP(w, r)
			}))
			t.Cleanup(s.Close)
			h := start(t, Config{}, wire.Server{Name: "s", URL: s.URL, Type: "streamable-http"})
			h.awaitState("s", wire.Connected)
			fateIs(t, h.rpc("", "s", "tools/call", `{"name":"x"}`), tt.want)
			s.Listener.Close()
			s.CloseClientConnections()
			last := h.rpc("", "s", "tools/call", `{"name":"x"}`)
			for range 10 { // a connection may be written to before its end is seen
				if rawjson.GetString([]byte(last), "fate") == "" {
					break
				}
				last = h.rpc("", "s", "tools/call", `{"name":"x"}`)
			}
			fateIs(t, last, wire.NotSent)
		})
	}
}

func TestFateSSE(t *testing.T) {
	f := &sseFake{}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	h := start(t, Config{}, wire.Server{Name: "s", URL: s.URL + "/sse", Type: "sse"})
	h.awaitState("s", wire.Connected)
	answer, _ := h.post("rpc", rpcParams("", "s", "tools/call", `{"name":"hang"}`))
	h.told("hanging")
	f.mu.Lock()
	close(f.hangUp)
	f.mu.Unlock()
	fateIs(t, h.await(answer), wire.Unknown)
}
