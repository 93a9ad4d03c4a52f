package proxy

import (
	"bufio"
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
	"sync"
	"syscall"
	"testing"
	"time"

	"hutch/aggd/wire"
	"hutch/fs/duplex"
)

// A guest is a guest with its proxy.
type guest struct {
	t      testing.TB
	to     *net.UnixConn
	events chan wire.NetEvent // of requests that have ended
	begun  chan wire.NetEvent
	end    func() // ends the proxy, and returns when all is told
}

// pair returns the two ends of a connection.
func pair(t testing.TB) (*net.UnixConn, *net.UnixConn) {
	near, far, err := duplex.Conns()
	if err != nil {
		t.Fatal(err)
	}
	return near, far
}

func start(t testing.TB, n wire.Network) *guest {
	to, in := pair(t)
	g := &guest{t: t, to: to, events: make(chan wire.NetEvent, 10000), begun: make(chan wire.NetEvent, 10000)}
	out, w := io.Pipe()
	var work sync.WaitGroup
	work.Go(func() {
		if err := Serve(context.Background(), wire.NewSocket(in, MaxLine), w, os.Stderr); err != nil {
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
	g.end = func() { to.Close(); work.Wait() }
	t.Cleanup(g.end)
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

// unserved returns an address at which nobody listens, or can.
func unserved(t testing.TB) string {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(fd)
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
}

func echo(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	w.Header().Set("X-Saw", fmt.Sprint(r.Host, " ", r.Header["Proxy-Authorization"], r.Header["Proxy-Connection"], r.Header["X-Forwarded-For"], r.Header["Upgrade"], r.Header["X-Mine"], r.Header["Accept-Encoding"]))
	w.WriteHeader(http.StatusTeapot)
	fmt.Fprintf(w, "%s %s", r.Method, b)
}
