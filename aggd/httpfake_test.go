package aggd

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"hutch/aggd/rawjson"
)

// streamableFake is a fake over streamable HTTP.
type streamableFake struct {
	fake
	json bool        // answers are JSON where they can be, else event streams
	get  chan string // what the GET stream says; nil: not offered
	see  func(*http.Request)

	mu       sync.Mutex
	sessions map[string]bool
	made     int
}

func serveStreamable(t testing.TB, f *streamableFake) *httptest.Server {
	f.sessions = make(map[string]bool)
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s
}

// expire forgets all sessions.
func (f *streamableFake) expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.sessions)
}

func (f *streamableFake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.see != nil {
		f.see(r)
	}
	id := r.Header.Get("Mcp-Session-Id")
	f.mu.Lock()
	known := f.sessions[id]
	f.mu.Unlock()
	switch r.Method {
	case "POST":
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"method":"initialize"`) {
			f.mu.Lock()
			f.made++
			id = fmt.Sprintf("session-%d", f.made)
			f.sessions[id] = true
			f.mu.Unlock()
			w.Header().Set("Mcp-Session-Id", id)
		} else if !known {
			http.Error(w, "no session", 404)
			return
		} else if r.Header.Get("MCP-Protocol-Version") != "2025-06-18" {
			http.Error(w, "no version", 400)
			return
		}
		f.post(w, r, body)
	case "DELETE":
		f.mu.Lock()
		delete(f.sessions, id)
		f.mu.Unlock()
	case "GET":
		if f.get == nil || !known {
			w.WriteHeader(405)
			return
		}
		f.stream(w, r)
	}
}

func (f *streamableFake) post(w http.ResponseWriter, r *http.Request, body []byte) {
	if !strings.Contains(r.Header.Get("Accept"), "application/json") || !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		http.Error(w, "accept both", 406)
		return
	}
	if rawjson.Get(body, "id") == nil || rawjson.Get(body, "method") == nil {
		f.line(body, func(string) {})
		w.WriteHeader(202)
		return
	}
	if f.json {
		var last string
		f.line(body, func(line string) { last = line })
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, strings.Replace(last, "{", "{\r\n\t", 1))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(200)
	w.(http.Flusher).Flush()
	answered := false
	f.line(body, func(line string) {
		answered = answered || strings.Contains(line, `"result"`) || strings.Contains(line, `"error"`)
		fmt.Fprintf(w, ": comment\nevent: message\ndata: %s\n\n", line)
		w.(http.Flusher).Flush()
	})
	if !answered {
		<-r.Context().Done()
	}
}

func (f *streamableFake) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(200)
	w.(http.Flusher).Flush()
	for {
		select {
		case line, ok := <-f.get:
			if !ok {
				return
			}
			fmt.Fprintf(w, "data: %s\n\n", line)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// sseFake is a fake over HTTP with server-sent events, of the old kind.
type sseFake struct {
	fake
	endpoint string // sent in place of our own

	mu     sync.Mutex
	events chan string
	see    func(*http.Request)
	hangUp chan struct{}
}

func (f *sseFake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.see != nil {
		f.see(r)
	}
	switch {
	case r.Method == "GET" && r.URL.Path == "/sse":
		events, hangUp := make(chan string, 100), make(chan struct{})
		f.mu.Lock()
		f.events, f.hangUp = events, hangUp
		f.mu.Unlock()
		endpoint := f.endpoint
		if endpoint == "" {
			endpoint = "/messages?s=1"
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: endpoint\r\ndata: %s\r\n\r\n", endpoint)
		w.(http.Flusher).Flush()
		for {
			select {
			case line := <-events:
				fmt.Fprintf(w, "event: message\ndata: %s\n\n", line)
				w.(http.Flusher).Flush()
			case <-hangUp:
				return
			case <-r.Context().Done():
				return
			}
		}
	case r.Method == "POST" && r.URL.Path == "/messages":
		body, _ := io.ReadAll(r.Body)
		f.mu.Lock()
		events := f.events
		f.mu.Unlock()
		w.WriteHeader(202)
		f.line(body, func(line string) { events <- line })
	default:
		w.WriteHeader(405)
	}
}

// reserve returns an address that nobody else can take, and at which nobody
// listens before listen is called.
func reserve(t testing.TB) (address string, listen func() net.Listener) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(fd)
	socket := os.NewFile(uintptr(fd), "reserved")
	t.Cleanup(func() { socket.Close() })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port), func() net.Listener {
		if err := syscall.Listen(fd, 128); err != nil {
			t.Fatal(err)
		}
		l, err := net.FileListener(socket)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}
