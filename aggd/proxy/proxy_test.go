package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hutch/aggd/wire"
)

// A guest is a guest with its proxy.
type guest struct {
	t      testing.TB
	to     *net.UnixConn
	events chan wire.NetEvent // of requests that have ended
	begun  chan wire.NetEvent
}

// pair returns the two ends of a connection.
func pair(t testing.TB) (*net.UnixConn, *net.UnixConn) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = c.(*net.UnixConn)
	}
	return ends[0], ends[1]
}

func start(t testing.TB, n wire.Network) *guest {
	to, in := pair(t)
	g := &guest{t: t, to: to, events: make(chan wire.NetEvent, 10000), begun: make(chan wire.NetEvent, 10000)}
	out, w := io.Pipe()
	var work sync.WaitGroup
	work.Go(func() {
		if err := Serve(context.Background(), in, w, os.Stderr); err != nil {
			t.Error(err)
		}
		w.Close()
	})
	work.Go(func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var e wire.NetEvent
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				t.Errorf("%v: %s", err, lines.Text())
			} else if e.Ended {
				g.events <- e
			} else {
				g.begun <- e
			}
		}
	})
	t.Cleanup(func() { to.Close(); work.Wait() })
	n.Profile = "p"
	g.set(n)
	return g
}

func (g *guest) put(l wire.ProxyLine, rights []byte) {
	line, err := json.Marshal(l)
	if err == nil {
		_, _, err = g.to.WriteMsgUnix(append(line, '\n'), rights, nil)
	}
	if err != nil {
		g.t.Error(err)
	}
}

func (g *guest) set(n wire.Network) { g.put(wire.ProxyLine{Network: &n}, nil) }

// dial connects to the proxy.
func (g *guest) dial() *net.UnixConn {
	ours, theirs := pair(g.t)
	raw, err := theirs.SyscallConn()
	if err != nil {
		g.t.Fatal(err)
	}
	raw.Control(func(fd uintptr) { g.put(wire.ProxyLine{Conn: true}, syscall.UnixRights(int(fd))) })
	theirs.Close()
	ours.SetDeadline(time.Now().Add(time.Minute)) // where a test fails it fails
	return ours
}

func (g *guest) client() *http.Client {
	t := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy"}),
		DialContext:     func(context.Context, string, string) (net.Conn, error) { return g.dial(), nil },
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	g.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

// raw writes text on a connection of its own and returns all that comes back.
func (g *guest) raw(text string) string {
	c := g.dial()
	defer c.Close()
	go io.WriteString(c, text)
	b, _ := io.ReadAll(c) // a reset is an end, too
	return string(b)
}

func (g *guest) ended() wire.NetEvent {
	g.t.Helper()
	select {
	case e := <-g.events:
		return e
	case <-time.After(time.Minute):
		g.t.Fatal("no request has ended")
	}
	panic("unreached")
}

// A server is a server that notes what it is asked.
type server struct {
	*httptest.Server
	host, port string
	mu         sync.Mutex
	asked      []string
}

func serve(t testing.TB, secure bool, h http.HandlerFunc) *server {
	s := &server{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.Method+" "+r.Host+r.URL.RequestURI())
		s.mu.Unlock()
		h(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	s.host, s.port, _ = net.SplitHostPort(s.Listener.Addr().String())
	return s
}

func (s *server) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.asked...)
}

// at returns the server's address under a name.
func (s *server) at(host string) string { return net.JoinHostPort(host, s.port) }

func echo(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	w.Header().Set("X-Saw", fmt.Sprint(r.Host, " ", r.Header["Proxy-Authorization"], r.Header["Proxy-Connection"], r.Header["X-Forwarded-For"], r.Header["Upgrade"], r.Header["X-Mine"], r.Header["Accept-Encoding"]))
	w.WriteHeader(http.StatusTeapot)
	fmt.Fprintf(w, "%s %s", r.Method, b)
}

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
		e.ID, e.Time, e.Duration = 0, time.Time{}, 0
		port, _ := strconv.Atoi(s.port)
		want := wire.NetEvent{Ended: true, Host: "127.0.0.1", Port: uint16(port), Method: "PUT", Path: "/a%20b", Decision: "allowed",
			Rule: "allow " + s.at("127.0.0.1"), Status: 418, Sent: int64(len(body)), Received: int64(len(body)) + 4}
		if e != want {
			t.Errorf("%+v, want %+v", e, want)
		}
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
		{get("/"), 400, "denied", "request", "this is a proxy"},
		{get("//127.0.0.1:" + s.port + "/"), 400, "denied", "request", ""},
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
		{"\x00CAPSEM_META:curl\n" + get("/"), 400, "denied", "request", "this is a proxy"},
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
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := l.Addr().String()
	l.Close()
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
	s := serve(t, false, echo)
	at := s.at("127.0.0.1")
	hidden := "GET http://localhost:" + s.port + "/hidden HTTP/1.1\r\nHost: " + at + "\r\nX: y\r\n\r\n"
	origin := "GET /hidden HTTP/1.1\r\nHost: " + at + "\r\n\r\n"
	for name, request := range map[string]string{
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
		"an absolute form inside": "GET http://" + at + "/http://localhost:" + s.port + "/hidden HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"a name before the host":  "GET http://localhost@" + at + "/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, wire.Network{Allow: []string{at}, Private: []string{"127.0.0.1", "localhost"}})
			before := len(s.requests())
			c := g.dial()
			defer c.Close()
			go func() { io.WriteString(c, request); c.CloseWrite() }()
			io.Copy(io.Discard, c)
			c.Close()
			g.to.Close() // what is under way ends, and is told
			asked := s.requests()[before:]
			told := map[string]int{}
			for range asked {
				if e := g.ended(); e.Decision != wire.Denied {
					told[e.Host+e.Path]++
				}
			}
			for _, a := range asked {
				_, where, _ := strings.Cut(a, " ")
				host, path, _ := strings.Cut(where, "/")
				if host != at || strings.HasPrefix(path, "hidden") || told["127.0.0.1/"+path] == 0 {
					t.Errorf("the server was asked %q, told was %v", a, told)
				}
			}
		})
	}
}

func TestTunnel(t *testing.T) {
	s := serve(t, true, echo)
	for _, host := range []string{"127.0.0.1", "localhost"} {
		g := start(t, wire.Network{Allow: []string{s.at(host)}, Private: []string{"127.0.0.1", "localhost"}})
		c := g.client()
		resp, err := c.Post("https://"+s.at(host)+"/x", "text/plain", strings.NewReader(strings.Repeat("y", 1<<20)))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || len(body) != 1<<20+5 {
			t.Errorf("%d bytes, %v", len(body), err)
		}
		if b := <-g.begun; b.Host != host || b.Decision != wire.Allowed {
			t.Errorf("began %+v", b)
		}
		c.CloseIdleConnections()
		e := g.ended()
		if e.Method != "CONNECT" || e.Host != host || e.Decision != wire.Allowed || e.Sent < 1<<20 || e.Received < 1<<20 || e.Status != 200 || e.Path != "" {
			t.Errorf("%+v", e)
		}
	}
}

// TestTunnelTakesTLSOnly has tunnels that carry something else, or go elsewhere.
func TestTunnelTakesTLSOnly(t *testing.T) {
	s := serve(t, true, echo)
	g := start(t, wire.Network{Allow: []string{s.at("localhost")}, Private: []string{"localhost"}})
	open := func() *net.UnixConn {
		c := g.dial()
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", s.at("localhost"))
		want := "HTTP/1.1 200 Connection established\r\n\r\n"
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
			t.Fatalf("%q, %v", got, err)
		}
		return c
	}
	for _, text := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\x16\x03\x01\x00\x05\x02aaaa", "\x16\x03\x01\x00\x04\x01\x00\x00\x00"} {
		c := open()
		io.WriteString(c, text)
		b, _ := io.ReadAll(c)
		c.Close()
		if !strings.Contains(string(b), "a tunnel must carry TLS") {
			t.Errorf("%q: %q", text, b)
		}
		if e := g.ended(); e.Decision != wire.Denied || e.Rule != "tls" || e.Sent != 0 {
			t.Errorf("%+v", e)
		}
	}
	for name, ok := range map[string]bool{"localhost": true, "LOCALHOST": true, "other.example": false, "localhost.evil.example": false} {
		c := open()
		err := tls.Client(&slow{c}, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
		c.Close()
		if (err == nil) != ok || !ok && !strings.Contains(err.Error(), "access denied") {
			t.Errorf("%s: %v", name, err)
		}
		if e := g.ended(); (e.Decision == wire.Allowed) != ok || !ok && !strings.Contains(e.Reason, name) {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if asked := s.requests(); len(asked) > 0 {
		t.Errorf("the server was asked %v", asked)
	}
}

// slow writes a byte at a time.
type slow struct{ net.Conn }

func (s *slow) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := s.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

func TestWebSocket(t *testing.T) {
	s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" {
			echo(w, r)
			return
		}
		c, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		io.CopyN(c, buf, 5)
	})
	g := start(t, wire.Network{Allow: []string{s.at("127.0.0.1")}, Private: []string{"127.0.0.1"}})
	c := g.dial()
	defer c.Close()
	fmt.Fprintf(c, "GET %s/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", s.URL)
	in := bufio.NewReader(c)
	if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(resp, err)
	}
	io.WriteString(c, "hello")
	if b, err := io.ReadAll(in); string(b) != "hello" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	c.Close()
	if e := g.ended(); e.Status != 101 || e.Sent != 5 || e.Received != 5 || e.Decision != wire.Allowed {
		t.Errorf("%+v", e)
	}
	a := g.raw("GET " + s.URL + "/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n")
	if !strings.HasPrefix(a, "HTTP/1.1 418 ") || !strings.Contains(a, "[] [] [] [] []") {
		t.Errorf("%q", a)
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

// FuzzRequest writes anything to the proxy: no server sees a request for a host
// that was not allowed.
func FuzzRequest(f *testing.F) {
	s := serve(f, false, echo)
	at := s.at("127.0.0.1")
	g := start(f, wire.Network{Allow: []string{at}, Private: []string{"127.0.0.1", "localhost"}})
	for _, text := range []string{
		"GET http://AT/ HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT AT HTTP/1.1\r\n\r\n\x16\x03\x01", "\x00CAPSEM_META:x\nGET http://AT/ HTTP/1.0\r\n\r\n",
		"POST http://AT/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nGET http://localhost/ HTTP/1.1\r\nHost: AT\r\n\r\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c := g.dial()
		defer c.Close()
		c.Write(bytes.ReplaceAll(text, []byte("AT"), []byte(at)))
		c.CloseWrite()
		io.Copy(io.Discard, c)
		for _, a := range s.requests() {
			if _, where, _ := strings.Cut(a, " "); !strings.HasPrefix(where, at) {
				t.Errorf("the server was asked %q", a)
			}
		}
		s.mu.Lock()
		s.asked = nil
		s.mu.Unlock()
		for len(g.events)+len(g.begun) > 0 {
			select {
			case <-g.events:
			case <-g.begun:
			}
		}
	})
}

func FuzzHello(f *testing.F) {
	f.Add([]byte("\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03"))
	said := &sayer{hearer: hearer{in: strings.NewReader("")}}
	tls.Client(said, &tls.Config{ServerName: "a.example"}).Handshake()
	if name, _, err := clientHello(bytes.NewReader(said.text)); name != "a.example" || err != nil {
		f.Fatalf("%q, %v", name, err)
	}
	f.Add(said.text)
	f.Fuzz(func(t *testing.T, text []byte) {
		_, read, err := clientHello(bytes.NewReader(text))
		if !bytes.HasPrefix(text, read) {
			t.Errorf("read %q of %q", read, text)
		}
		if err == nil && len(read) == 0 {
			t.Error("a hello of nothing")
		}
	})
}

// A sayer keeps what was written.
type sayer struct {
	hearer
	text []byte
}

func (s *sayer) Write(p []byte) (int, error) {
	s.text = append(s.text, p...)
	return len(p), nil
}
