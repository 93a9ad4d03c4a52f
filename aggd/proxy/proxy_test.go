package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"hutch/aggd/trace"
	"hutch/aggd/wire"
)

func TestForward(t *testing.T) {
	s := serve(t, false, echo)
	g := start(t, wire.Network{Allow: []string{s.at("127.0.0.1")}, Private: []string{"127.0.0.0/8"}})
	c := g.client()
	for _, body := range []string{"", "hello", strings.Repeat("x", 1<<20)} {
		req, _ := http.NewRequest("PUT", s.URL+"/a%20b?q=1", strings.NewReader(body))
		req.Header.Set("Proxy-Authorization", "Basic eDp5")
		req.Header.Set("Proxy-Connection", "keep-alive")
		req.Header.Set("X-Mine", "kept")
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusTeapot || string(got) != "PUT "+body {
			t.Errorf("%d %.20q %v", resp.StatusCode, got, err)
		}
		if saw := resp.Header.Get("X-Saw"); saw != s.at("127.0.0.1")+" [] [] [] [] [kept] [gzip]" {
			t.Errorf("the server saw %s", saw)
		}
		e := g.ended()
		if _, ok := trace.ParseID(e.Trace); !ok {
			t.Errorf("trace id %q", e.Trace)
		}
		e.ID, e.Time, e.Duration, e.Trace = 0, time.Time{}, 0, ""
		port, _ := strconv.Atoi(s.port)
		want := wire.NetEvent{Ended: true, Host: "127.0.0.1", Port: uint16(port), Method: "PUT", Path: "/a%20b", Decision: "allowed",
			Rule: "allow " + s.at("127.0.0.1"), Status: 418, Sent: int64(len(body)), Received: int64(len(body)) + 4}
		if e != want {
			t.Errorf("%+v, want %+v", e, want)
		}
	}
}

// TestTraced has requests be part of the trace that they say, and what is no
// trace get no further.
func TestTraced(t *testing.T) {
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "saw ", r.Header["Traceparent"], r.Header["Tracestate"])
	})
	g := start(t, wire.Network{Allow: []string{s.at("127.0.0.1")}, Private: []string{"127.0.0.0/8"}})
	for _, tt := range []struct{ head, saw, id string }{
		{"", "saw [] []", ""},
		{"traceparent: 00-" + id + "-00f067aa0ba902b7-01\r\ntracestate: a=b\r\ntracestate: c=d\r\n", "saw [00-" + id + "-00f067aa0ba902b7-01] [a=b c=d]", id},
		{"traceparent: 00-" + id + "-00f067aa0ba902b7-01\r\ntracestate: rubbish\r\n", "saw [00-" + id + "-00f067aa0ba902b7-01] []", id},
		{"traceparent: rubbish\r\ntracestate: a=b\r\n", "saw [] []", ""},
		{strings.Repeat("traceparent: 00-"+id+"-00f067aa0ba902b7-01\r\n", 2), "saw [] []", ""},
	} {
		answer := g.raw("GET " + s.URL + "/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + tt.head + "\r\n")
		if !strings.Contains(answer, tt.saw) {
			t.Errorf("%q: the server %q, want %q", tt.head, answer, tt.saw)
		}
		if got := g.ended().Trace; tt.id != "" && got != tt.id || tt.id == "" && (got == id || len(got) != 32) {
			t.Errorf("%q: trace id %q, want %q", tt.head, got, tt.id)
		}
	}
	g.raw("CONNECT none.example:443 HTTP/1.1\r\nHost: x\r\ntraceparent: 00-" + id + "-00f067aa0ba902b7-01\r\n\r\n")
	if e := g.ended(); e.Trace != id || e.Decision != wire.Denied {
		t.Errorf("a tunnel: %+v", e)
	}
}

// TestRefused asks for what is not to be had.
func TestRefused(t *testing.T) {
	s := serve(t, false, echo)
	g := start(t, wire.Network{
		Allow:   []string{"*", "*:" + s.port, "port.example", "localhost:8080"},
		Block:   []string{"*.blocked.example", "half.example:443", "127.0.0.9"},
		Private: []string{"127.0.0.1"},
	})
	get := func(url string) string { return "GET " + url + " HTTP/1.1\r\nHost: x\r\n\r\n" }
	connect := func(at string) string { return "CONNECT " + at + " HTTP/1.1\r\nHost: x\r\n\r\n" }
	for _, c := range []struct {
		request        string
		status         int
		decision, rule string
		says           string
	}{
		{get("http://a.blocked.example/"), 403, "denied", "block *.blocked.example", "to do: do without it"},
		{get("http://A.BLOCKED.example./"), 403, "denied", "block *.blocked.example", "profile p blocks"},
		{connect("a.blocked.example:8443"), 403, "denied", "block *.blocked.example", "profile p blocks"},
		{connect("half.example:443"), 403, "denied", "block half.example:443", ""},
		{get("http://127.0.0.9:" + s.port + "/"), 403, "denied", "block 127.0.0.9", ""},
		{get("http://[::ffff:127.0.0.9]:" + s.port + "/"), 403, "denied", "block 127.0.0.9", ""},
		{get("http://localhost:8081/"), 403, "denied", "port", `"localhost:8081" added to allow in [network] of profiles/p.toml`},
		{connect("mail.example:25"), 403, "denied", "port", "not its port 25"},
		{connect("a.example:22"), 403, "denied", "port", ""},
		{get("http://127.0.0.2:" + s.port + "/"), 403, "denied", "private", `"127.0.0.2" added to private`},
		{get("http://169.254.169.254/latest/meta-data/"), 403, "denied", "private", "not public"},
		{get("http://[::1]:" + s.port + "/"), 403, "denied", "private", ""},
		{connect("10.0.0.1:443"), 403, "denied", "private", ""},
		{connect("[fd00::1]:443"), 403, "denied", "private", ""},
		{get("http://127.1:" + s.port + "/"), 400, "denied", "request", "no name of a host"},
		{get("http://2130706433:" + s.port + "/"), 400, "denied", "request", "no name of a host"},
		{get("http://0x7f.0.0.1:" + s.port + "/"), 400, "denied", "request", "no name of a host"},
		{get("http://a%2eb/"), 400, "", "", ""},
		{"GET / HTTP/1.1\r\nHost: a.blocked.example\r\n\r\n", 403, "denied", "block *.blocked.example", ""},
		{"GET //" + s.at("localhost") + "/ HTTP/1.1\r\nHost: a.blocked.example\r\n\r\n", 403, "denied", "block *.blocked.example", ""},
		{"GET / HTTP/1.1\r\nHost: \r\n\r\n", 400, "denied", "request", "this is a proxy"},
		{get("*"), 400, "denied", "request", "this is a proxy"},
		{get("https://127.0.0.1/"), 400, "denied", "request", "CONNECT"},
		{get("ftp://127.0.0.1/"), 400, "denied", "request", "only http"},
		{get("http:127.0.0.1/"), 400, "denied", "request", ""},
		{get("http:///x"), 400, "denied", "request", ""},
		{get("http://127.0.0.1:0/"), 400, "denied", "request", "no port"},
		{get("http://127.0.0.1:99999/"), 400, "denied", "request", "no port"},
		{connect("127.0.0.1"), 400, "denied", "request", "host:port"},
		{connect("127.0.0.1:443/x"), 400, "denied", "request", "host:port"},
		{connect("u@127.0.0.1:443"), 400, "denied", "request", "host:port"},
		{connect("/x"), 400, "denied", "request", "host:port"},
		{get("http://" + s.at("127.0.0.1") + "\t/"), 400, "", "", ""},
		{"GET http://x/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "", "", ""},
		{"GET http://x/ HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 20000) + "\r\n", 431, "", "", ""},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "denied", "request", "this is a proxy"},
		{"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n", 400, "", "", ""},
		{"\x00CAPSEM_META:curl\n" + get("*"), 400, "denied", "request", "this is a proxy"},
	} {
		answer := g.raw(c.request)
		if !strings.HasPrefix(answer, fmt.Sprintf("HTTP/1.1 %d ", c.status)) || !strings.Contains(answer, c.says) || !strings.Contains(answer, "Connection: close") {
			t.Errorf("%.80q: %q, want %d and %q", c.request, answer, c.status, c.says)
		}
		if c.decision == "" {
			continue // it was no request
		}
		e := g.ended()
		if e.Decision != c.decision || e.Rule != c.rule || e.Status != c.status || e.Reason == "" {
			t.Errorf("%.80q: %+v, want %s by %s", c.request, e, c.decision, c.rule)
		}
		if strings.HasPrefix(c.request, "GET https:") && (e.Host != "127.0.0.1" || e.Port != 443) {
			t.Errorf("%.80q: the event tells of %s port %d", c.request, e.Host, e.Port)
		}
		if strings.HasPrefix(c.request, "CONNECT") && !strings.HasPrefix(answer, fmt.Sprintf("HTTP/1.1 %d hutch: ", c.status)) {
			t.Errorf("the first line does not tell why: %q", answer)
		}
		if want := map[bool]string{true: "curl"}[c.request[0] == 0]; e.Process != want {
			t.Errorf("process %q, want %q", e.Process, want)
		}
	}
	if asked := s.requests(); len(asked) > 0 {
		t.Errorf("the server was asked %v", asked)
	}
	if a := g.raw("\x00nobody\nGET http://" + s.at("127.0.0.1") + "/ HTTP/1.1\r\n\r\n"); !strings.HasPrefix(a, "HTTP/1.1 400 ") {
		t.Errorf("answered %q to one that names no program", a)
	}
	select {
	case e := <-g.events:
		t.Errorf("told of %+v", e)
	default:
	}
}

// TestUnreached asks for servers that are not there.
func TestUnreached(t *testing.T) {
	gone := unserved(t)
	_, port, _ := net.SplitHostPort(gone)
	g := start(t, wire.Network{Allow: []string{"*:" + port, "*"}, Private: []string{"127.0.0.1"}})
	for request, says := range map[string]string{
		"GET http://" + gone + "/ HTTP/1.1\r\n\r\n": "127.0.0.1: ", "CONNECT " + gone + " HTTP/1.1\r\n\r\n": "127.0.0.1: ",
		"GET http://nowhere.invalid/ HTTP/1.1\r\n\r\n": "nowhere.invalid",
	} {
		request = strings.Replace(request, "\r\n\r\n", "\r\nHost: x\r\n\r\n", 1)
		if a := g.raw(request); !strings.HasPrefix(a, "HTTP/1.1 502 ") || !strings.Contains(a, says) {
			t.Errorf("%q: %q", request, a)
		}
		if e := g.ended(); e.Decision != wire.Errored || e.Reason == "" || !strings.HasPrefix(e.Rule, "allow") && e.Rule != "" {
			t.Errorf("%+v", e)
		}
	}
}

// TestEachIsDecided makes several requests on one connection: each is decided
// by its own host.
func TestEachIsDecided(t *testing.T) {
	s := serve(t, false, echo)
	g := start(t, wire.Network{Allow: []string{s.at("127.0.0.1")}, Private: []string{"127.0.0.1", "localhost"}})
	c := g.dial()
	defer c.Close()
	go fmt.Fprintf(c, "GET http://%s/1 HTTP/1.1\r\nHost: localhost\r\n\r\n"+"POST http://%s/2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nGET /"+
		"GET http://%s/3 HTTP/1.1\r\nHost: %s\r\n\r\n"+"GET http://%s/4 HTTP/1.1\r\nHost: x\r\n\r\n",
		s.at("127.0.0.1"), s.at("127.0.0.1"), s.at("localhost"), s.at("127.0.0.1"), s.at("127.0.0.1"))
	in := bufio.NewReader(c)
	for i, want := range []int{418, 418, 403} {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		if resp.StatusCode != want {
			t.Errorf("request %d: %s", i, resp.Status)
		}
		g.ended()
	}
	if rest, _ := io.ReadAll(in); len(rest) > 0 {
		t.Errorf("after a refusal: %q", rest)
	}
	want := []string{"GET " + s.at("127.0.0.1") + "/1", "POST " + s.at("127.0.0.1") + "/2"}
	if got := s.requests(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the server was asked %q, want %q", got, want)
	}
}

// TestSmuggling hides a request in another one. Whatever becomes of it, what the
// server sees is what was decided and told.
func TestSmuggling(t *testing.T) {
	for name := range smuggled("", "") {
		t.Run(name, func(t *testing.T) {
			s := serve(t, false, echo)
			at := s.at("127.0.0.1")
			g := start(t, wire.Network{Allow: []string{at}, Private: []string{"127.0.0.1", "localhost"}})
			c := g.dial()
			defer c.Close()
			go func() { io.WriteString(c, smuggled(at, s.port)[name]); c.CloseWrite() }()
			io.Copy(io.Discard, c)
			c.Close()
			g.end() // what is under way ends, and is told
			s.Close()
			told := map[string]int{}
			for len(g.events) > 0 {
				if e := <-g.events; e.Decision != wire.Denied {
					told[e.Host+e.Path]++
				}
			}
			for _, a := range s.requests() {
				_, where, _ := strings.Cut(a, " ")
				host, path, _ := strings.Cut(where, "/")
				if told["127.0.0.1/"+path]--; host != at || strings.HasPrefix(path, "hidden") || told["127.0.0.1/"+path] < 0 {
					t.Errorf("the server was asked %q, told was %v", a, told)
				}
			}
		})
	}
}

// smuggled returns requests that hide one of another host, or of /hidden.
func smuggled(at, port string) map[string]string {
	hidden := "GET http://localhost:" + port + "/hidden HTTP/1.1\r\nHost: " + at + "\r\nX: y\r\n\r\n"
	origin := "GET /hidden HTTP/1.1\r\nHost: " + at + "\r\n\r\n"
	return map[string]string{
		"chunked and a length":    "POST http://" + at + "/ HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"two lengths":             "POST http://" + at + "/ HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: " + strconv.Itoa(len(hidden)) + "\r\n\r\n" + hidden,
		"a list of lengths":       "POST http://" + at + "/ HTTP/1.1\r\nHost: x\r\nContent-Length: 0, 5\r\n\r\n" + hidden,
		"a length with a sign":    "POST http://" + at + "/ HTTP/1.1\r\nHost: x\r\nContent-Length: +0\r\n\r\n" + hidden,
		"chunked twice":           "POST http://" + at + "/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"another encoding":        "POST http://" + at + "/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden,
		"an encoding with a tab":  "POST http://" + at + "/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\tchunked\x0b\r\n\r\n0\r\n\r\n" + hidden,
		"a blank before a colon":  "POST http://" + at + "/ HTTP/1.1\r\nHost: x\r\nContent-Length : 5\r\n\r\n" + hidden,
		"a folded line":           "POST http://" + at + "/ HTTP/1.1\r\nHost: x\r\nX: a\r\n Content-Length: 5\r\n\r\n" + hidden,
		"a bare line feed":        "GET http://" + at + "/ HTTP/1.1\nHost: x\nX: a\n\n" + hidden,
		"a bare carriage return":  "GET http://" + at + "/ HTTP/1.1\r\nHost: x\r\nX: a\r\rGET /hidden HTTP/1.1\r\n\r\n",
		"a line end in the URL":   "GET http://" + at + "/%0d%0aGET%20/hidden HTTP/1.1\r\nHost: x\r\n\r\n",
		"a chunk with extensions": "POST http://" + at + "/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;a=\"\r\n\"\r\n" + hidden,
		"a negative chunk":        "POST http://" + at + "/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n" + hidden,
		"a huge chunk":            "POST http://" + at + "/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n" + hidden,
		"a body in a GET":         "GET http://" + at + "/ HTTP/1.1\r\nHost: x\r\nContent-Length: " + strconv.Itoa(len(origin)) + "\r\n\r\n" + origin,
		"HTTP/1.0 and chunked":    "POST http://" + at + "/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n0\r\n\r\n" + hidden,
		"trailers":                "POST http://" + at + "/ HTTP/1.1\r\nHost: x\r\nTrailer: Host\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nHost: localhost\r\n\r\n" + origin,
		"Connection names Host":   "GET http://" + at + "/ HTTP/1.1\r\nHost: x\r\nConnection: Host, close\r\n\r\n",
		"a tunnel with a body":    "CONNECT " + at + " HTTP/1.1\r\nHost: x\r\nContent-Length: " + strconv.Itoa(len(origin)) + "\r\n\r\n" + origin,
		"an upgrade to h2c":       "GET http://" + at + "/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" + origin,
		"an absolute form inside": "GET http://" + at + "/http://localhost:" + port + "/hidden HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"a name before the host":  "GET http://localhost@" + at + "/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
	}
}

func TestLimits(t *testing.T) {
	wait := make(chan struct{})
	big := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			<-wait
		}
		io.Copy(io.Discard, r.Body)
		w.Write(bytes.Repeat([]byte("z"), 1<<20))
	}
	s, secure := serve(t, false, big), serve(t, true, big)
	defer close(wait)
	g := start(t, wire.Network{Allow: []string{"127.0.0.1:" + s.port, "127.0.0.1:" + secure.port}, Private: []string{"127.0.0.1"}, MaxBytes: 100 << 10})
	c := g.client()
	for _, url := range []string{s.URL, secure.URL} {
		resp, err := c.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, resp.Body); err == nil || n > 200<<10 {
			t.Errorf("%d bytes, %v", n, err)
		}
		resp.Body.Close()
		if e := g.ended(); e.Decision != wire.Errored || !strings.Contains(e.Reason, "max_bytes") || e.Received < 100<<10 {
			t.Errorf("%+v", e)
		}
	}
	resp, err := c.Post(s.URL, "text/plain", bytes.NewReader(make([]byte, 1<<20)))
	if err == nil {
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(b), "max_bytes") {
			t.Errorf("%s %q", resp.Status, b)
		}
	} // else the connection was closed while it wrote
	if e := g.ended(); e.Decision != wire.Errored || !strings.Contains(e.Reason, "max_bytes") {
		t.Errorf("%+v", e)
	}
	g.set(wire.Network{Profile: "p", Allow: []string{"127.0.0.1:" + s.port}, Private: []string{"127.0.0.1"}, Timeout: wire.Duration(50 * time.Millisecond)})
	c.CloseIdleConnections()
	if resp, err = c.Get(s.URL + "/wait"); err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusGatewayTimeout || !strings.Contains(string(b), "timed out after 50ms") {
		t.Errorf("%s %q", resp.Status, b)
	}
	if e := g.ended(); e.Decision != wire.Errored || e.Status != 504 {
		t.Errorf("%+v", e)
	}
}

// TestManyAtOnce has as many connections as there may be, and one more.
func TestManyAtOnce(t *testing.T) {
	all := make(chan struct{})
	s := serve(t, false, func(w http.ResponseWriter, r *http.Request) { <-all })
	g := start(t, wire.Network{Allow: []string{"127.0.0.1:" + s.port}, Private: []string{"127.0.0.1"}})
	var conns []*net.UnixConn
	for range maxConns {
		c := g.dial()
		defer c.Close()
		fmt.Fprintf(c, "GET %s/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", s.URL)
		conns = append(conns, c)
	}
	for range maxConns {
		<-g.begun
	}
	if a := g.raw("GET " + s.URL + "/ HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasPrefix(a, "HTTP/1.1 503 hutch: more than 256") {
		t.Errorf("one more: %q", a)
	}
	close(all)
	for _, c := range conns {
		if b, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 200 ") {
			t.Errorf("%q, %v", b, err)
		}
		c.Close()
	}
	for range maxConns {
		g.ended()
	}
}

// TestReload changes what may be reached under connections that are open.
func TestReload(t *testing.T) {
	s := serve(t, false, echo)
	g := start(t, wire.Network{})
	c := g.client()
	status := func() int {
		resp, err := c.Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		g.ended()
		return resp.StatusCode
	}
	for i, n := range []wire.Network{
		{}, {Allow: []string{s.at("127.0.0.1")}}, {Allow: []string{s.at("127.0.0.1")}, Private: []string{"127.0.0.1"}},
		{Allow: []string{s.at("127.0.0.1")}}, {Profile: "bad", Allow: []string{"not a pattern/"}},
	} {
		g.set(n)
		g.raw("GET / HTTP/1.1\r\nHost: x\r\n\r\n") // its connection comes after the line
		g.ended()
		want := http.StatusForbidden
		if i == 2 {
			want = http.StatusTeapot
		}
		if got := status(); got != want {
			t.Errorf("with %+v: %d", n, got)
		}
	}
}
