package aggd

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"hutch/aggd/wire"
)

// guarded serves f to those who have the token that wanted holds.
func guarded(t *testing.T, f *streamableFake) (url string, wanted *atomic.Value) {
	wanted = new(atomic.Value)
	f.sessions = make(map[string]bool)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+wanted.Load().(string) {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		f.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, wanted
}

// TestRenewedToken has a server refuse its token, and the request wait for another.
func TestRenewedToken(t *testing.T) {
	f := &streamableFake{}
	url, wanted := guarded(t, f)
	wanted.Store("one")
	s := wire.Server{Name: "s", URL: url, Enabled: true, Keep: true, Renewed: true}
	h := start(t, Config{}, s) // and has none
	refused := func(token string) {
		t.Helper()
		for h.status("s").Refused != wire.TokenHash(token) {
			h.unasked() // of whatever: there is one when that changes
		}
	}
	refused("")
	s.BearerToken = "one"
	h.refresh(s)
	h.awaitState("s", wire.Connected)
	if got := h.status("s").Refused; got != "" {
		t.Errorf("refused is %q", got)
	}

	wanted.Store("two")
	answer, _ := h.post(wire.RPC, `{"client":"","server":"s","method":"tools/call","params":{"name":"x"}}`)
	refused("one")
	s.BearerToken = "two"
	h.refresh(s)
	wants(t, h.await(answer), `"echo":{"name":"x"}`)
	h.refresh(s)
	wants(t, h.rpc("", "s", "tools/call", `{"name":"y"}`), `"echo":{"name":"y"}`)

	wanted.Store("three")
	answer, _ = h.post(wire.RPC, `{"client":"","server":"s","method":"tools/call","params":{"name":"x"}}`)
	refused("two")
	h.refresh(s) // it has no other
	wants(t, h.await(answer), "HTTP 401")
	for range 3 { // and is not asked for one each time
		began := time.Now()
		wants(t, h.rpc("", "s", "tools/call", `{"name":"z"}`), "HTTP 401 Unauthorized: who are you? (the server refuses its token, and another is asked for in")
		if took := time.Since(began); took > renewPause/2 {
			t.Errorf("it took %v to say so", took)
		}
	}
	if got := h.status("s").Error; got != "the server refuses its token" {
		t.Errorf("its status says %q", got)
	}
	wanted.Store("two")
	wants(t, h.rpc("", "s", "tools/call", `{"name":"z"}`), `"echo":{"name":"z"}`)
	if st := h.status("s"); st.Error != "" || st.Refused != "" {
		t.Errorf("of a token that is good again: %q, %q", st.Error, st.Refused)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.made != 1 {
		t.Errorf("there were %d sessions, want 1", f.made)
	}
}

// TestFixedToken has the token of a server that is not renewed be another: that is
// another connection.
func TestFixedToken(t *testing.T) {
	a, b := wire.Server{Name: "s", BearerToken: "a"}, wire.Server{Name: "s", BearerToken: "b"}
	if (definition{Server: a}).sameConnection(definition{Server: b}) {
		t.Error("another token shares the connection")
	}
	if a.Renewed, b.Renewed = true, true; !(definition{Server: a}).sameConnection(definition{Server: b}) {
		t.Error("a token that was renewed does not share the connection")
	}
	if b.Renewed = false; (definition{Server: a}).sameConnection(definition{Server: b}) {
		t.Error("another kind of token shares the connection")
	}
}
