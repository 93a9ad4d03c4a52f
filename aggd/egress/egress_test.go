package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hutch/aggd/process"
	"hutch/aggd/proxy"
	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/fs/duplex"
)

// The test binary is also the proxy that it starts.
func TestMain(m *testing.M) {
	if len(os.Args) != 2 || os.Args[1] != "proxy" {
		os.Exit(m.Run())
	}
	if len(os.Environ()) > 0 {
		fmt.Fprintln(os.Stderr, "environment:", os.Environ())
	}
	in, err := wire.InheritSocket(0, proxy.MaxLine)
	if err == nil {
		err = proxy.Serve(context.Background(), in, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A rig is a proxy under test.
type rig struct {
	*Proxy
	t      *testing.T
	events chan wire.NetEvent
	downs  chan error

	mu  sync.Mutex
	log strings.Builder
}

func (r *rig) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

func begin(t *testing.T, path string, n wire.Network) *rig {
	r := &rig{t: t, events: make(chan wire.NetEvent, 100), downs: make(chan error, 100)}
	if path == "" {
		path = self(t)
	}
	r.Proxy = Start(Config{
		Path: path, Network: n, Log: r,
		Event: func(e wire.NetEvent) { r.events <- e }, Down: func(err error) { r.downs <- err },
	})
	t.Cleanup(func() {
		r.Close()
		if r.PID() != 0 {
			t.Error("a process after Close")
		}
		if r.log.Len() > 0 {
			t.Errorf("the proxy printed %s", &r.log)
		}
	})
	return r
}

func self(t *testing.T) string {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// ask makes a request over a connection of the kind that guests have, and
// returns all that comes back.
func (r *rig) ask(c, host net.Conn, request string) string {
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	go func() {
		io.WriteString(c, request)
		r.Serve(context.Background(), host)
	}()
	b, err := io.ReadAll(c)
	if err != nil {
		r.t.Error(err)
	}
	return string(b)
}

// sockets returns the two ends of a guest's connection, whose bytes are passed on
// by descriptor; pipes one of those that are copied.
func sockets(t *testing.T) (guest, host net.Conn) {
	guest, host, err := duplex.Conns()
	if err != nil {
		t.Fatal(err)
	}
	return guest, host
}

func copied(t *testing.T) (guest, host net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if guest, err = net.Dial("tcp", l.Addr().String()); err == nil {
		host, err = l.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	return guest, host
}

func TestServe(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello from ", r.URL.Path) }))
	defer s.Close()
	n := wire.Network{Profile: "p", Allow: []string{s.Listener.Addr().String()}, Private: []string{"127.0.0.1"}}
	r := begin(t, "", n)
	request := "GET " + s.URL + "/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	for name, connect := range map[string]func(*testing.T) (net.Conn, net.Conn){"by descriptor": sockets, "copied": copied} {
		r.Set(n)
		c, host := connect(t)
		if a := r.ask(c, host, request); !strings.HasPrefix(a, "HTTP/1.1 200 ") || !strings.HasSuffix(a, "hello from /x") {
			t.Errorf("%s: %q", name, a)
		}
		if e := <-r.events; e.Decision != wire.Allowed || e.Path != "/x" || e.Received != 13 {
			t.Errorf("%s: %+v", name, e)
		}
		r.Set(wire.Network{Profile: "q"})
		c, host = connect(t)
		if a := r.ask(c, host, request); !strings.HasPrefix(a, "HTTP/1.1 403 ") || !strings.Contains(a, "the profile q does not allow 127.0.0.1") {
			t.Errorf("%s: %q", name, a)
		}
		if e := <-r.events; e.Decision != wire.Denied {
			t.Errorf("%s: %+v", name, e)
		}
	}
	// Close ends what is under way.
	for _, connect := range []func(*testing.T) (net.Conn, net.Conn){sockets, copied} {
		c, host := connect(t)
		defer c.Close()
		if err := r.Serve(t.Context(), host); err != nil {
			t.Error(err)
		}
	}
	r.Close()
	c, host := sockets(t)
	if a := r.ask(c, host, ""); !strings.Contains(a, "the proxy is closed") {
		t.Errorf("after Close: %q", a)
	}
}

// TestDeath kills the proxy in the middle of a request: that is told, and the next
// connection finds a new one with the same network.
func TestDeath(t *testing.T) {
	asked := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer s.Close()
	r := begin(t, "", wire.Network{Allow: []string{s.Listener.Addr().String()}, Private: []string{"127.0.0.1"}})
	for range 3 {
		if err := process.Await(t.Context(), nil, r.look); err != nil { // however long a new one takes to start
			t.Fatal(err)
		}
		c, host := sockets(t)
		defer c.Close()
		if err := r.Serve(t.Context(), host); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "GET %s/ HTTP/1.1\r\nHost: x\r\n\r\n", s.URL)
		<-asked
		syscall.Kill(r.PID(), syscall.SIGKILL)
		if b, _ := bufio.NewReader(c).ReadByte(); b != 0 {
			t.Errorf("read %q from the dead", b)
		}
		if err := <-r.downs; !errors.Is(err, fs.ErrIO) || !strings.Contains(err.Error(), "the proxy died (signal: killed)") {
			t.Error(err)
		}
		if e := <-r.events; e.Decision != wire.Errored || !strings.Contains(e.Reason, "interrupted") {
			t.Errorf("%+v", e)
		}
	}
}

func TestMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locald")
	r := begin(t, path, wire.Network{})
	<-r.downs
	c, host := sockets(t)
	if a := r.ask(c, host, ""); !strings.HasPrefix(a, "HTTP/1.1 503 ") || !strings.Contains(a, path+" is missing") {
		t.Errorf("%q", a)
	}
}
