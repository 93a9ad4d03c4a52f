package mcpd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hutch/aggd/wire"
	"hutch/mcpd/frame"
	"hutch/mcpd/ledger"
	"hutch/mcpd/policy"
)

// A site is an endpoint for tests, with its folders.
type site struct {
	*Endpoint
	t      testing.TB
	work   string
	path   string // of the ledger
	db     *ledger.DB
	seals  bool // the relays of its programs sign
	mu     sync.Mutex
	events []string
}

// patience bounds what a test waits for; nothing is measured by it.
const patience = time.Minute

func testServers(kinds ...string) []wire.Server {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	var list []wire.Server
	for _, k := range kinds {
		list = append(list, wire.Server{Name: k, Program: wire.Program{Command: self, Args: []string{"-mcp-server", k}}, Enabled: true, ConnectTimeout: wire.Duration(patience)})
	}
	return list
}

func newSite(t testing.TB, change func(*Config), servers []wire.Server, lists ...policy.List) *site {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	st := &site{t: t, work: t.TempDir(), path: filepath.Join(t.TempDir(), "session.db")}
	st.db, err = ledger.Open(st.path, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		VM: func() string { return "dev" }, Work: st.work, AggdPath: self,
		Ledger: func() (*ledger.DB, error) { return st.db, nil },
		AggLog: logTo{t},
		Settle: patience,
		Event: func(a Alert) {
			st.mu.Lock()
			defer st.mu.Unlock()
			st.events = append(st.events, a.Kind+": "+a.Text)
		},
	}
	if change != nil {
		change(&cfg)
	}
	st.Endpoint = New(cfg)
	if err := st.Reload(context.Background(), servers, listed(t, lists...)); err != nil {
		t.Fatal(err)
	}
	if err := st.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		st.Endpoint.Close()
		st.db.Close()
	})
	return st
}

type logTo struct{ t testing.TB }

func (l logTo) Write(p []byte) (int, error) {
	if testing.Verbose() {
		fmt.Fprintf(os.Stderr, "aggd: %s", p)
	}
	return len(p), nil
}

// saw reports whether a security event with that text was told of.
func (st *site) saw(text string) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return strings.Contains(strings.Join(st.events, "\n"), text)
}

// A guest is the relay's end of a connection.
type guest struct {
	t       testing.TB
	conn    net.Conn
	w       *frame.Writer
	version uint8
	notes   chan reply // notifications
	asks    chan frame.Frame
	over    chan struct{}
	err     error

	mu      sync.Mutex
	last    uint32
	waiting map[uint32]chan reply
}

type reply struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
}

func socketPair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err = net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

// dial connects a guest that does not say initialize.
func (st *site) dial(t testing.TB, version uint8) *guest { return st.dialAs(t, version, "") }

// dialAs is dial for who asks through the tree; "" is the guest.
func (st *site) dialAs(t testing.TB, version uint8, principal string) *guest {
	a, b := socketPair(t)
	g := &guest{
		t: t, conn: a, w: frame.NewWriter(a), version: version, notes: make(chan reply, 1000), asks: make(chan frame.Frame, 10),
		over: make(chan struct{}), waiting: map[uint32]chan reply{},
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		st.ServeFor(context.Background(), b, principal)
	}()
	go g.read()
	t.Cleanup(func() {
		a.Close()
		<-served
		<-g.over
	})
	return g
}

func (g *guest) read() {
	defer close(g.over)
	r := frame.NewReader(g.conn)
	for {
		f, err := r.Next()
		if err != nil {
			g.err = err
			return
		}
		if f.Flags&frame.FromHost != 0 {
			g.asks <- f
			continue
		}
		var m reply
		if err := json.Unmarshal(f.Payload, &m); err != nil {
			g.t.Errorf("the host sent %.100q: %v", f.Payload, err)
			continue
		}
		if f.Flags&frame.Notification != 0 {
			select {
			case g.notes <- m:
			default: // nobody looks
			}
			continue
		}
		g.mu.Lock()
		ch := g.waiting[f.Stream]
		g.mu.Unlock()
		if ch == nil {
			g.t.Errorf("answer on stream %d, where nobody asked: %.200s", f.Stream, f.Payload)
			continue
		}
		ch <- m
	}
}

// send sends a payload on a new stream and returns where its answer comes.
func (g *guest) send(payload string) chan reply {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last++
	ch := make(chan reply, 1)
	g.waiting[g.last] = ch
	if err := g.w.WriteFrame(frame.Frame{Version: g.version, Stream: g.last, Process: "agent", Payload: []byte(payload)}); err != nil {
		g.t.Error(err)
	}
	return ch
}

func (g *guest) wait(ch chan reply) reply {
	g.t.Helper()
	select {
	case m := <-ch:
		return m
	case <-g.over:
		if len(ch) > 0 {
			return <-ch
		}
		g.t.Fatalf("the connection ended: %v", g.err)
	case <-time.After(patience):
		g.t.Fatal("no answer")
	}
	return reply{}
}

func (g *guest) request(method, params string) string {
	if params == "" {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q}`, g.last+1, method)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, g.last+1, method, params)
}

// do makes a request and returns its answer.
func (g *guest) do(method, params string) reply {
	g.t.Helper()
	return g.wait(g.send(g.request(method, params)))
}

// ok is do for a request that succeeds.
func (g *guest) ok(method, params string) json.RawMessage {
	g.t.Helper()
	m := g.do(method, params)
	if m.Error != nil {
		g.t.Fatalf("%s %s: %d %s", method, params, m.Error.Code, m.Error.Message)
	}
	return m.Result
}

// fails is do for a request that fails with that code and text.
func (g *guest) fails(method, params string, code int, text string) {
	g.t.Helper()
	m := g.do(method, params)
	if m.Error == nil || m.Error.Code != code || !strings.Contains(m.Error.Message, text) {
		g.t.Errorf("%s %s: %s, %+v, want error %d %q", method, params, m.Result, m.Error, code, text)
	}
}

func (g *guest) notify(method, params string) {
	payload := fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params)
	if err := g.w.WriteFrame(frame.Frame{Version: g.version, Flags: frame.Notification, Process: "agent", Payload: []byte(payload)}); err != nil {
		g.t.Error(err)
	}
}

// note waits for a notification of that method.
func (g *guest) note(method string) reply {
	g.t.Helper()
	for {
		m := g.wait(g.notes)
		if m.Method == method {
			return m
		}
	}
}

// told returns the notifications of that method which were sent to the guest
// before now: they go before the answer to what it asks now.
func (g *guest) told(method string) (list []reply) {
	g.t.Helper()
	g.ok("ping", "")
	for len(g.notes) > 0 {
		if m := <-g.notes; m.Method == method {
			list = append(list, m)
		}
	}
	return list
}

// awaitServers returns the servers' lines once they have a text.
func (st *site) awaitServers(want string) string {
	st.t.Helper()
	for end := time.Now().Add(patience); ; {
		text := st.ServersText()
		if strings.Contains(text, want) {
			return text
		}
		if time.Now().After(end) {
			st.t.Fatalf("the servers do not have %q:\n%s", want, text)
		}
	}
}

// hello connects a guest and initializes it.
func (st *site) hello(t testing.TB, version uint8, capabilities string) *guest {
	t.Helper()
	g := st.dial(t, version)
	g.ok("initialize", `{"protocolVersion":"2025-06-18","capabilities":`+capabilities+`,"clientInfo":{"name":"t","version":"1"}}`)
	g.notify("notifications/initialized", `{}`)
	return g
}

// lines returns the ledger's records of calls once there are n of them.
func (st *site) lines(n int) []map[string]any {
	st.t.Helper()
	l := st.db.Log(ledger.Calls)
	var text []byte
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// What is under way for longer has a line more, which is no record.
	begun := func() int { return strings.Count("\n"+string(text), "\n{\"begun\":") }
	for off := int64(0); strings.Count(string(text), "\n")-begun() < n; {
		b := make([]byte, 64<<10)
		k, err := l.ReadAt(ctx, b, off, true)
		if err != nil {
			st.t.Fatalf("ledger: %v after %s", err, text)
		}
		text = append(text, b[:k]...)
		off += int64(k)
	}
	var list []map[string]any
	whole := string(text[:bytes.LastIndexByte(text, '\n')+1]) // a read may end within a line
	for line := range strings.Lines(whole) {
		if strings.HasPrefix(line, "{\"begun\":") {
			continue
		}
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			st.t.Fatal(err)
		}
		list = append(list, m)
	}
	return list
}

// compiled returns the policy that c says.
func compiled(t testing.TB, c policy.Config) *policy.Policy {
	t.Helper()
	p, err := policy.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// listed returns the policy of servers' lists.
func listed(t testing.TB, lists ...policy.List) *policy.Policy {
	t.Helper()
	return compiled(t, policy.Config{Lists: lists})
}
