package aggd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hutch/aggd/programs"
	"hutch/aggd/wire"
)

// A site is a program that listens: a fake of the host.
type site struct {
	*httptest.Server
	start  programs.Start
	once   sync.Once
	exited chan struct{}
}

func (s *site) Dial(ctx context.Context) (io.ReadWriteCloser, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", s.Listener.Addr().String())
}

// end ends the site, with how as its end.
func (s *site) end(how string) {
	s.once.Do(func() {
		s.CloseClientConnections()
		s.Close()
		s.start.Gone(how)
		close(s.exited)
	})
}

func (s *site) Exited() <-chan struct{} { return s.exited }
func (s *site) Terminate()              { s.end("signal: SIGTERM") }
func (s *site) Kill()                   { s.end("signal: SIGKILL") }
func (s *site) PID() int                { return 0 }

// sites are the programs that were started.
type sites struct {
	serve func() http.Handler

	mu  sync.Mutex // guards all
	all []*site
}

func (s *sites) begin(_ context.Context, start programs.Start) (programs.Task, error) {
	if start.Command == "never" {
		fmt.Fprintln(start.Log, "no module x")
		return nil, errors.New("it ended before it listened")
	}
	one := &site{Server: httptest.NewServer(s.serve()), start: start, exited: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one)
	return one, nil
}

// last returns how many were started, and the last.
func (s *sites) last() (int, *site) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all), s.all[len(s.all)-1]
}

// listening is a server whose program listens. Nothing is at its URL.
func listening(transport, path string) wire.Server {
	return wire.Server{Name: "s", Type: transport, URL: "http://nowhere.invalid:8080" + path, Keep: true, Program: wire.Program{Sandbox: "box", Port: 8080}}
}

// TestServed has a program that listens be asked by several sessions, end, and be
// started again.
func TestServed(t *testing.T) {
	for transport, path := range map[string]string{"streamable-http": "/mcp", "sse": "/sse"} {
		t.Run(transport, func(t *testing.T) {
			all := &sites{serve: func() http.Handler { return &streamableFake{sessions: map[string]bool{}} }}
			if transport == "sse" {
				all.serve = func() http.Handler { return &sseFake{} }
			}
			h := startWith(t, Config{}, all.begin, listening(transport, path))
			client := ""
			if transport != "sse" { // whose fake has one session
				client = h.client(`{"sampling":{}}`)
			}
			for _, client := range []string{"", client} {
				wants(t, h.rpc(client, "s", "tools/call", `{"name":"x"}`), `"echo"`)
			}
			n, first := all.last()
			if n != 1 {
				t.Errorf("it was started %d times", n)
			}
			answer, _ := h.post("rpc", rpcParams("", "s", "tools/call", `{"name":"hang"}`))
			h.told("hanging")
			fmt.Fprintln(first.start.Log, "dying words")
			first.end("exit status 7")
			wants(t, h.await(answer), "the server died (exit status 7): dying words")
			h.told(`"method":"hutch/lost","params":{"reason":"the server died (exit status 7): dying words"`)
			wants(t, h.rpc("", "s", "tools/call", `{"name":"x"}`), `"echo"`)
			n, second := all.last()
			if n != 2 {
				t.Errorf("it was started %d times", n)
			}
			h.ask("refresh", `{"servers":[]}`)
			<-second.exited
		})
	}
}

// TestServedNowhere has programs that do not listen, and one that leads elsewhere.
func TestServedNowhere(t *testing.T) {
	t.Parallel()
	all := &sites{serve: func() http.Handler { return &sseFake{endpoint: "http://elsewhere.invalid/messages"} }}
	never := listening("streamable-http", "/mcp")
	never.Command = "never"
	h := startWith(t, Config{ListWait: time.Millisecond}, all.begin, never)
	wants(t, h.rpc("", "s", "tools/call", `{"name":"x"}`), "it ended before it listened: no module x")

	h = startWith(t, Config{ListWait: time.Millisecond}, all.begin, listening("sse", "/sse"))
	wants(t, h.rpc("", "s", "tools/call", `{"name":"x"}`), "the endpoint is on another host, elsewhere.invalid")

	all.serve = func() http.Handler {
		return http.RedirectHandler("http://elsewhere.invalid/mcp", http.StatusTemporaryRedirect)
	}
	h = startWith(t, Config{ListWait: time.Millisecond}, all.begin, listening("streamable-http", "/mcp"))
	wants(t, h.rpc("", "s", "tools/call", `{"name":"x"}`), "redirected to another server, http://elsewhere.invalid")
}

// A mute server answers, until it is silent but to the end of a session.
type mute struct {
	streamableFake
	silent atomic.Bool
}

func (m *mute) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m.silent.Load() && r.Method != http.MethodDelete {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return
	}
	m.streamableFake.ServeHTTP(w, r)
}

// TestServedSilent has a program listen and not answer, from its start and later: it is
// ended, though another session is with it.
func TestServedSilent(t *testing.T) {
	t.Parallel()
	var all sites
	all.serve = func() http.Handler {
		m := &mute{streamableFake: streamableFake{sessions: map[string]bool{}}}
		m.silent.Store(len(all.all) == 0)
		return m
	}
	s := listening("streamable-http", "/mcp")
	s.Health, s.ConnectTimeout = wire.Duration(50*time.Millisecond), wire.Duration(200*time.Millisecond)
	h := startWith(t, Config{}, all.begin, s)
	for client := range map[string]bool{"": true, h.client(`{"sampling":{}}`): true} {
		for !strings.Contains(h.rpc(client, "s", "tools/call", `{"name":"x"}`), `"echo"`) {
		}
	}
	wants(t, h.log.String(), "no answer within 200ms")
	n, last := all.last()
	if n != 2 {
		t.Errorf("it was started %d times", n)
	}
	last.Config.Handler.(*mute).silent.Store(true)
	<-last.exited
	for !strings.Contains(h.rpc("", "s", "tools/call", `{"name":"x"}`), `"echo"`) {
	}
}

// TestServedMany has more calls under way than there are connections: they wait.
func TestServedMany(t *testing.T) {
	all := &sites{serve: func() http.Handler { return &streamableFake{sessions: map[string]bool{}} }}
	h := startWith(t, Config{}, all.begin, listening("streamable-http", "/mcp"))
	var answers []<-chan string
	for range 3 * maxServedConns {
		a, _ := h.post("rpc", rpcParams("", "s", "tools/call", `{"name":"x"}`))
		answers = append(answers, a)
	}
	for _, a := range answers {
		if line := h.await(a); !strings.Contains(line, `"echo"`) {
			t.Fatalf("%.300s", line)
		}
	}
}
