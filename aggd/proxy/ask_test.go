package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"hutch/aggd/wire"
)

// asked returns the next request that the proxy asks about.
func (g *guest) asked() wire.NetEvent {
	g.t.Helper()
	for {
		select {
		case e := <-g.begun:
			if e.Asks {
				return e
			}
		case <-time.After(time.Minute):
			g.t.Fatal("nothing was asked")
		}
	}
}

func (g *guest) answer(n wire.NetAnswer) { g.put(wire.ProxyLine{Answer: &n}, nil) }

func startAsking(t *testing.T, s *server, d time.Duration) *guest {
	return start(t, wire.Network{Allow: []string{s.at("127.0.0.1")}, Private: []string{"127.0.0.1"}, Decide: wire.Duration(d)})
}

func TestAsk(t *testing.T) {
	s := serve(t, false, echo)
	g := startAsking(t, s, time.Minute)
	get := "\x00CAPSEM_META:curl\nGET " + s.URL + "/a%2Fb?q=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	for _, test := range []struct {
		answer            wire.NetAnswer
		got, rule, reason string
	}{
		{wire.NetAnswer{Allowed: true}, "HTTP/1.1 418 ", "allow " + s.at("127.0.0.1"), ""},
		{wire.NetAnswer{Allowed: true, Rule: "security.rules.web.get", Reason: "ann said so"}, "HTTP/1.1 418 ", "security.rules.web.get", "ann said so"},
		{wire.NetAnswer{Rule: "security.rules.web.no", Reason: "not today"}, "HTTP/1.1 403 ", "security.rules.web.no", "not today"},
	} {
		back := make(chan string, 1)
		go func() { back <- g.raw(get) }()
		q := g.asked()
		if q.Ended || q.Host != "127.0.0.1" || fmt.Sprint(q.Port) != s.port || q.Method != "GET" || q.Path != "/a%2Fb" || q.Process != "curl" {
			t.Errorf("asked %+v", q)
		}
		g.answer(wire.NetAnswer{ID: q.ID + 1000}) // which nobody waits for
		test.answer.ID = q.ID
		g.answer(test.answer)
		g.answer(wire.NetAnswer{ID: q.ID, Reason: "too late"})
		a := <-back
		if !strings.HasPrefix(a, test.got) || !test.answer.Allowed && !strings.Contains(a, "hutch: not today\nhost: 127.0.0.1:"+s.port+"\nrule: security.rules.web.no\n") {
			t.Errorf("%+v: %q", test.answer, a)
		}
		if e := g.ended(); (e.Decision == wire.Allowed) != test.answer.Allowed || e.Rule != test.rule || e.Reason != test.reason || e.ID != q.ID || e.Asks {
			t.Errorf("%+v: %+v", test.answer, e)
		}
	}
	if n := len(s.requests()); n != 2 {
		t.Errorf("the server was asked %d times", n)
	}
	// What the patterns refuse nobody is asked about.
	if a := g.raw("GET http://evil.example/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.Contains(a, "does not allow evil.example") {
		t.Errorf("%q", a)
	}
	g.ended()
	// Each request of a connection is asked about by itself.
	c := g.client()
	for range 3 {
		var work sync.WaitGroup
		work.Go(func() {
			if resp, err := c.Get(s.URL); err != nil || resp.StatusCode != http.StatusTeapot {
				t.Error(resp, err)
			} else {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
		g.answer(wire.NetAnswer{ID: g.asked().ID, Allowed: true})
		work.Wait()
		g.ended()
	}
}

// TestAskBody has a body come in parts, before and after the answer.
func TestAskBody(t *testing.T) {
	s := serve(t, false, echo)
	g := startAsking(t, s, time.Minute)
	c := g.dial()
	defer c.Close()
	io.WriteString(c, "POST "+s.URL+"/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 9\r\n\r\nabc")
	q := g.asked()
	io.WriteString(c, "def")
	g.answer(wire.NetAnswer{ID: q.ID, Allowed: true})
	io.WriteString(c, "ghi")
	if back, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(back), "HTTP/1.1 418 ") || !strings.Contains(string(back), "abcdefghi") {
		t.Errorf("%q, %v", back, err)
	}
	if e := g.ended(); e.Decision != wire.Allowed || e.Sent != 9 {
		t.Errorf("%+v", e)
	}
}

func TestAskTunnel(t *testing.T) {
	s := serve(t, true, echo)
	g := startAsking(t, s, time.Minute)
	var work sync.WaitGroup
	work.Go(func() {
		_, err := g.client().Get("https://" + s.at("127.0.0.1") + "/secret")
		if err == nil || !strings.Contains(err.Error(), "hutch: no tunnels") {
			t.Error(err)
		}
	})
	q := g.asked()
	if q.Method != "CONNECT" || q.Path != "" || q.Host != "127.0.0.1" {
		t.Errorf("asked %+v", q)
	}
	g.answer(wire.NetAnswer{ID: q.ID, Rule: "r", Reason: "no tunnels"})
	work.Wait()
	if e := g.ended(); e.Decision != wire.Denied || e.Rule != "r" {
		t.Errorf("%+v", e)
	}
}

// TestNobodyDecides has requests that get no answer: hutchd does not say, the guest
// hangs up, and the proxy ends.
func TestNobodyDecides(t *testing.T) {
	s := serve(t, false, echo)
	get := "GET " + s.URL + "/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	g := startAsking(t, s, 10*time.Millisecond)
	if a := g.raw(get); !strings.HasPrefix(a, "HTTP/1.1 403 ") || !strings.Contains(a, "nobody decided") {
		t.Errorf("%q", a)
	}
	if e := g.ended(); e.Decision != wire.Denied {
		t.Errorf("%+v", e)
	}
	g = startAsking(t, s, time.Hour)
	post := "POST " + s.URL + "/ HTTP/1.1\r\nHost: x\r\nContent-Length: "
	for _, request := range []string{get, post + "1\r\n\r\nx", post + "9\r\n\r\nx"} {
		c := g.dial()
		io.WriteString(c, request)
		q := g.asked()
		c.Close()
		if e := g.ended(); e.ID != q.ID || e.Decision != wire.Errored || !strings.Contains(e.Reason, "hung up") {
			t.Errorf("%q: %+v", request, e)
		}
	}
	c := g.dial()
	defer c.Close()
	io.WriteString(c, get)
	q := g.asked()
	g.end()
	if e := g.ended(); e.ID != q.ID || e.Decision == wire.Allowed {
		t.Errorf("%+v", e)
	}
	if asked := s.requests(); len(asked) > 0 {
		t.Errorf("the server was asked %v", asked)
	}
}

// TestSetWhileAsked takes from the guest what it may reach while a person thinks.
func TestSetWhileAsked(t *testing.T) {
	s := serve(t, false, echo)
	g := startAsking(t, s, time.Minute)
	back := make(chan string, 1)
	go func() { back <- g.raw("GET " + s.URL + "/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") }()
	q := g.asked()
	g.set(wire.Network{Profile: "q"})
	g.answer(wire.NetAnswer{ID: q.ID, Allowed: true, Rule: "r"})
	if a := <-back; !strings.Contains(a, "the profile q does not allow 127.0.0.1") {
		t.Errorf("%q", a)
	}
	if e := g.ended(); e.Decision != wire.Denied || e.Rule != "default" {
		t.Errorf("%+v", e)
	}
}
