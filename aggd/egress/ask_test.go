package egress

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hutch/aggd/wire"
)

// asking begins a proxy that asks decide about all that goes to s.
func asking(t *testing.T, s *httptest.Server, decide func(context.Context, wire.NetEvent) wire.NetAnswer) *rig {
	r := &rig{t: t, events: make(chan wire.NetEvent, 1000), downs: make(chan error, 100)}
	r.Proxy = Start(Config{
		Path: self(t), Log: r, Decide: decide,
		Network: wire.Network{Profile: "p", Allow: []string{s.Listener.Addr().String()}, Private: []string{"127.0.0.1"}, Decide: wire.Duration(time.Minute)},
		Event:   func(e wire.NetEvent) { r.events <- e }, Down: func(err error) { r.downs <- err },
	})
	t.Cleanup(func() { r.Close() })
	return r
}

func TestDecide(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") }))
	defer s.Close()
	r := asking(t, s, func(_ context.Context, e wire.NetEvent) wire.NetAnswer {
		return wire.NetAnswer{ID: 99, Allowed: e.Path == "/yes", Rule: "rule", Reason: "path " + e.Path}
	})
	var work sync.WaitGroup
	for i := range 40 {
		path, want := "/yes", "HTTP/1.1 200 "
		if i%2 == 1 {
			path, want = "/no", "HTTP/1.1 403 "
		}
		work.Go(func() {
			c, host := sockets(t)
			if a := r.ask(c, host, "GET "+s.URL+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(a, want) {
				t.Errorf("%s: %q", path, a)
			}
		})
	}
	work.Wait()
	for range 40 {
		if e := <-r.events; (e.Path == "/yes") != (e.Decision == wire.Allowed) || e.Rule != "rule" || e.Reason != "path "+e.Path {
			t.Errorf("%+v", e)
		}
	}
}

// TestGivenUp ends the wait for a decision: the guest hangs up, or the proxy is
// closed or dies.
func TestGivenUp(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	began, ended := make(chan bool, 10), make(chan bool, 10)
	r := asking(t, s, func(ctx context.Context, e wire.NetEvent) wire.NetAnswer {
		began <- true
		<-ctx.Done()
		ended <- true
		return wire.NetAnswer{Allowed: true}
	})
	ask := func() io.Closer {
		c, host := sockets(t)
		if err := r.Serve(t.Context(), host); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "GET %s/ HTTP/1.1\r\nHost: x\r\n\r\n", s.URL)
		<-began
		return c
	}
	ask().Close()
	<-ended
	if e := <-r.events; e.Decision != wire.Errored || !strings.Contains(e.Reason, "hung up") {
		t.Errorf("%+v", e)
	}
	c := ask()
	defer c.Close()
	r.Close()
	<-ended
	if e := <-r.events; e.Decision == wire.Allowed {
		t.Errorf("%+v", e)
	}
}

// TestManyAsk has a process ask more than any proxy would.
func TestManyAsk(t *testing.T) {
	var now, most, refused atomic.Int64
	run := newTestRun(func(ctx context.Context, _ wire.NetEvent) wire.NetAnswer {
		for n := now.Add(1); ; {
			if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		defer now.Add(-1)
		<-ctx.Done()
		return wire.NetAnswer{}
	}, func(n wire.NetAnswer) {
		if !n.Allowed && strings.Contains(n.Reason, "wait to be decided") {
			refused.Add(1)
		}
	})
	var lines bytes.Buffer
	for i := range 2000 {
		fmt.Fprintf(&lines, `{"id":%d,"asks":true}`+"\n", i)
	}
	run.read(&lines)
	run.gone("ended")
	if now.Load() != 0 || most.Load() > maxAsked || refused.Load() != 2000-maxAsked {
		t.Errorf("%d under way, %d at most, %d refused", now.Load(), most.Load(), refused.Load())
	}
}

func newTestRun(decide func(context.Context, wire.NetEvent) wire.NetAnswer, answer func(wire.NetAnswer)) *run {
	return &run{
		event: func(wire.NetEvent) {}, log: io.Discard, begun: map[uint64]wire.NetEvent{},
		asked: &asked{decide: decide, answer: answer, cancel: map[uint64]context.CancelFunc{}},
	}
}

// FuzzLines has a process say anything: what it asks is answered or ended, and
// nothing is left of it.
func FuzzLines(f *testing.F) {
	for _, text := range []string{
		"", "{}\n", `{"id":1,"asks":true}` + "\n" + `{"id":1,"asks":true}` + "\n", `{"id":1,"asks":true,"ended":true}` + "\n",
		`{"id":-1}` + "\n{\n", `{"id":1,"asks":true}`, strings.Repeat("x", maxLine+1) + "\n" + `{"id":1,"asks":true}` + "\n", "\x00\n[]\nnull\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		run := newTestRun(func(context.Context, wire.NetEvent) wire.NetAnswer { return wire.NetAnswer{} }, func(wire.NetAnswer) {})
		run.read(bytes.NewReader(text))
		run.gone("ended")
		if n := len(run.asked.cancel); n > 0 {
			t.Errorf("%d are left", n)
		}
	})
}
