package mcpd

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

// A door serves an endpoint over streamable HTTP, to a client that knows one of
// its servers alone: what the client says is passed to a relay, a line a message,
// and what the relay says to the client. On the way the names of the server's
// things get the server's name, and lose it again; nothing else is changed.
type door struct {
	t      *testing.T
	st     *site
	server string

	mu       sync.Mutex // guards what follows
	sessions map[string]*lane
	made     int
	free     []*lane // of requests that stand for themselves
}

// openDoor returns the URL of a door.
func openDoor(t *testing.T, st *site, server string) string {
	d := &door{t: t, st: st, server: server, sessions: make(map[string]*lane)}
	s := httptest.NewServer(d)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

// A lane is one relay, and who waits for what it says.
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
// of its id is under way. What the endpoint keeps for the next request is there.
func (d *door) lane(p *post) *lane {
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

func (d *door) open() *lane {
	out, in := d.st.program(d.t, "conformance")
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

// whose returns the post that a line of the relay belongs to, as far as one can
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

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
func (d *door) post(w http.ResponseWriter, r *http.Request, l *lane) {
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
func (d *door) answer(w http.ResponseWriter, r *http.Request, p *post, first []byte) {
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
func (d *door) follow(w http.ResponseWriter, r *http.Request, lines <-chan []byte) {
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

func (d *door) event(w http.ResponseWriter, line []byte) {
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

// inward gives the name of what a message of the client is about the server's.
func (d *door) inward(m jsonrpc.Message, body []byte) []byte {
	members := map[string][]string{
		"tools/call": {"name"}, "prompts/get": {"name"}, "resources/read": {"uri"},
		"resources/subscribe": {"uri"}, "resources/unsubscribe": {"uri"},
		"completion/complete": {"ref", "name"},
	}
	path := members[m.Method]
	if m.Method == "completion/complete" && rawjson.GetString(m.Params, "ref", "uri") != "" {
		path = []string{"ref", "uri"}
	}
	path = append([]string{"params"}, path...)
	name := rawjson.GetString(body, path...)
	switch {
	case name == "" || d.st.Endpoint.work.Has(name): // which the endpoint has itself
		return body
	case path[len(path)-1] == "uri":
		name = jsonrpc.URI(d.server, name)
	default:
		name = d.server + jsonrpc.Separator + name
	}
	return rawjson.Set(body, rawjson.Quote(name), path...)
}

// outward takes the server's name away again.
func (d *door) outward(line []byte) []byte {
	line = bytes.ReplaceAll(line, []byte(`"`+d.server+jsonrpc.Separator), []byte(`"`))
	return bytes.ReplaceAll(line, []byte(jsonrpc.URI(d.server, "")), nil)
}
