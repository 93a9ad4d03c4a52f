// Package mcptest has MCP's conformance suite, which speaks HTTP, try servers and
// clients that speak on standard files.
package mcptest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
)

// A Door serves over streamable HTTP what speaks on standard files: what a client
// says is passed on, a line a message, and what is answered to the client. What
// HTTP has beside the messages is for others to look at.
type Door struct {
	// Start starts a server and returns its standard files. It is called for each
	// session, and for requests that stand for themselves.
	Start func() (out io.Reader, in io.WriteCloser)

	Inward  func(m jsonrpc.Message, body []byte) []byte // changes what clients say; nil: nothing
	Outward func(line []byte) []byte                    // changes what they are told; nil: nothing

	mu       sync.Mutex // guards what follows
	sessions map[string]*lane
	made     int
	free     []*lane // of requests that stand for themselves
}

// Open returns the URL of the door, which is open until the test ends.
func (d *Door) Open(t testing.TB) string {
	d.sessions = make(map[string]*lane)
	s := httptest.NewServer(d)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		for _, l := range d.free {
			l.in.Close()
		}
	})
	return s.URL
}

// A lane is one server, and who waits for what it says.
type lane struct {
	in io.WriteCloser

	mu    sync.Mutex // guards what follows
	posts []*post    // under way, the latest last
	get   chan []byte
}

// A post is a request of the client; what belongs to it comes by its lines.
type post struct {
	id, token []byte
	lines     chan []byte // the last is the answer
}

// lane returns a lane for a request that stands for itself: one in which no other
// of its id is under way. What is kept for the next request is there.
func (d *Door) lane(p *post) *lane {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.free {
		if l.add(p) {
			return l
		}
	}
	l := d.open()
	l.add(p)
	d.free = append(d.free, l)
	return l
}

// add adds a post, unless one of its id is there.
func (l *lane) add(p *post) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.ContainsFunc(l.posts, func(o *post) bool { return bytes.Equal(o.id, p.id) }) {
		return false
	}
	l.posts = append(l.posts, p)
	return true
}

func (d *Door) open() *lane {
	out, in := d.Start()
	l := &lane{in: in, get: make(chan []byte, 100)}
	go l.read(bufio.NewReader(out))
	return l
}

func (l *lane) read(out *bufio.Reader) {
	for {
		line, err := out.ReadBytes('\n')
		if err != nil {
			return
		}
		if p := l.whose(line); p != nil {
			p.lines <- line
			continue
		}
		select {
		case l.get <- line:
		default: // nobody listens
		}
	}
}

// whose returns the post that a line of the server belongs to, as far as one can
// tell.
func (l *lane) whose(line []byte) *post {
	m, _ := jsonrpc.Parse(line)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, p := range l.posts {
		switch {
		case m.Method == "" && bytes.Equal(m.ID, p.id):
			l.posts = slices.Delete(l.posts, i, i+1)
			return p
		case m.Method != "" && bytes.Equal(rawjson.Get(m.Params, "_meta", jsonrpc.MetaSubscription), p.id):
			return p
		case m.Method == "notifications/progress" && bytes.Equal(rawjson.Get(m.Params, "progressToken"), p.token):
			return p
		}
	}
	unasked := strings.HasSuffix(m.Method, "/list_changed") || m.Method == "notifications/resources/updated"
	if n := len(l.posts); n > 0 && m.Method != "" && !unasked {
		return l.posts[n-1]
	}
	return nil
}

func (l *lane) drop(p *post) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.posts, p); i >= 0 {
		l.posts = slices.Delete(l.posts, i, i+1)
	}
}

func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Mcp-Session-Id")
	d.mu.Lock()
	l := d.sessions[id]
	d.mu.Unlock()
	switch {
	case id != "" && l == nil:
		http.Error(w, "no such session", http.StatusNotFound)
	case r.Method == http.MethodPost:
		d.post(w, r, l)
	case l == nil:
		http.Error(w, "no session", http.StatusMethodNotAllowed)
	case r.Method == http.MethodGet:
		begin(w)
		d.follow(w, r, l.get)
	case r.Method == http.MethodDelete:
		d.mu.Lock()
		delete(d.sessions, id)
		d.mu.Unlock()
		l.in.Close()
	}
}

// post takes a message. Without a session it begins one, by initialize, or stands
// for itself, as from revision 2026-07-28 on.
func (d *Door) post(w http.ResponseWriter, r *http.Request, l *lane) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m, err := jsonrpc.Parse(body)
	if err != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		w.Write(jsonrpc.Response(nil, nil, jsonrpc.Errorf(jsonrpc.CodeParse, "parse error").Raw()))
		return
	}
	p := &post{id: bytes.Clone(m.ID), token: bytes.Clone(rawjson.Get(m.Params, "_meta", "progressToken")), lines: make(chan []byte, 1000)}
	asks := m.Method != "" && m.HasID()
	switch {
	case l == nil && m.Method == "initialize" && !modern(r):
		l = d.open()
		d.mu.Lock()
		d.made++
		id := strconv.Itoa(d.made)
		d.sessions[id] = l
		d.mu.Unlock()
		w.Header().Set("Mcp-Session-Id", id)
		l.add(p)
	case l == nil && !asks:
		w.WriteHeader(http.StatusAccepted) // it is about nothing
		return
	case l == nil:
		l = d.lane(p)
	case asks:
		l.add(p)
	}
	l.in.Write(append(rawjson.OneLine(d.inward(m, body)), '\n'))
	if !asks {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	defer l.drop(p)
	select {
	case first := <-p.lines:
		d.answer(w, r, p, first)
	case <-r.Context().Done():
	}
	if modern(r) && r.Context().Err() != nil { // which gives the request up
		fmt.Fprintf(l.in, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`+"\n", p.id)
	}
}

// answer answers a post, by a stream of events unless its status tells of an error.
func (d *Door) answer(w http.ResponseWriter, r *http.Request, p *post, first []byte) {
	m, _ := jsonrpc.Parse(first)
	if code := status(r, m); code != http.StatusOK {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		w.Write(d.outward(first))
		return
	}
	begin(w)
	d.event(w, first)
	if m.Method != "" {
		d.follow(w, r, p.lines)
	}
}

// follow sends lines until one is an answer or the client is gone.
func (d *Door) follow(w http.ResponseWriter, r *http.Request, lines <-chan []byte) {
	for {
		select {
		case line := <-lines:
			d.event(w, line)
			if m, _ := jsonrpc.Parse(line); m.Method == "" {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

func begin(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.(http.Flusher).Flush()
}

func (d *Door) event(w http.ResponseWriter, line []byte) {
	fmt.Fprintf(w, "event: message\ndata: %s\n\n", bytes.TrimSpace(d.outward(line)))
	w.(http.Flusher).Flush()
}

// modern tells a request that stands for itself.
func modern(r *http.Request) bool { return r.Header.Get("MCP-Protocol-Version") >= jsonrpc.Stateless }

// status is that of HTTP for an answer, as revision 2026-07-28 has it.
func status(r *http.Request, m jsonrpc.Message) int {
	if m.Error == nil || !modern(r) {
		return http.StatusOK
	}
	switch jsonrpc.Received(m.Error).Code {
	case jsonrpc.CodeMethod:
		return http.StatusNotFound
	case jsonrpc.CodeParams, jsonrpc.CodeHeader, jsonrpc.CodeCapability, jsonrpc.CodeRevision:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

func (d *Door) inward(m jsonrpc.Message, body []byte) []byte {
	if d.Inward == nil {
		return body
	}
	return d.Inward(m, body)
}

func (d *Door) outward(line []byte) []byte {
	if d.Outward == nil {
		return line
	}
	return d.Outward(line)
}
