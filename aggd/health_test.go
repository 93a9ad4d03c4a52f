package aggd

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hutch/aggd/wire"
)

// TestHealth has a kept server answer no more: it is told to be unhealthy, and is
// started again.
func TestHealth(t *testing.T) {
	s := stdioServer(t, "s", "plain")
	s.Keep, s.Health = true, wire.Duration(200*time.Millisecond)
	h := start(t, Config{}, s)
	pid := h.pid("s")
	told := func(method string) {
		t.Helper()
		h.told(`"method":"` + method + `"`)
	}
	told(wire.StateChanged) // it is connected
	if st := h.status("s"); st.State != wire.Connected || st.Error != "" {
		t.Errorf("at first: %+v", st)
	}
	h.rpc("", "s", "tools/call", `{"name":"sulk"}`)
	told(wire.StateChanged)
	if st := h.status("s"); st.State != wire.Unhealthy || !st.Connected || !strings.Contains(st.Error, "has not answered a ping within 100ms") {
		t.Errorf("when it sulks: %+v", st)
	}
	wants(t, h.rpc("", "s", "tools/call", `{"name":"x"}`), `"echo"`) // which is no reason to refuse a call
	told(wire.Lost)
	told(wire.StateChanged)
	if h.pid("s") == pid {
		t.Error("the server was not started again")
	}
	if st := h.status("s"); st.State != wire.Connected || st.Error != "" {
		t.Errorf("in the end: %+v", st)
	}
}

// TestHealthHTTP has a server of HTTP answer no more: its session is given back, once.
func TestHealthHTTP(t *testing.T) {
	var given atomic.Int32
	m := &mute{streamableFake: streamableFake{sessions: map[string]bool{}}}
	m.see = func(r *http.Request) {
		if r.Method == http.MethodDelete {
			given.Add(1)
		}
	}
	web := httptest.NewServer(m)
	defer web.Close()
	h := start(t, Config{}, wire.Server{Name: "s", Type: "streamable-http", URL: web.URL, Keep: true, Health: wire.Duration(20 * time.Millisecond)})
	wants(t, h.rpc("", "s", "tools/call", `{"name":"x"}`), `"echo"`)
	m.silent.Store(true)
	h.told(`"method":"` + wire.Lost + `"`)
	if n := given.Load(); n != 1 {
		t.Errorf("the session was given back %d times", n)
	}
}

// TestBusy has a server do something that takes long, and does not take it for ill.
func TestBusy(t *testing.T) {
	s := stdioServer(t, "s", "plain")
	s.Keep, s.Health = true, wire.Duration(100*time.Millisecond)
	h := start(t, Config{}, s)
	pid := h.pid("s")
	h.post("rpc", rpcParams("", "s", "tools/call", `{"name":"hang"}`))
	h.told("hanging")
	h.rpc("", "s", "tools/call", `{"name":"sulk"}`)
	pause(2*deadAfter*100*time.Millisecond, nil, nil) // nothing is to happen
	if st := h.status("s"); st.State != wire.Connected || h.pid("s") != pid {
		t.Errorf("it is %+v, or was started again", st)
	}
}
