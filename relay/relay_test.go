package relay_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hutch/mcpd/frame"
	"hutch/relay"
)

// A client is a program that has a relay for its MCP server.
type client struct {
	t     testing.TB
	in    io.WriteCloser
	raw   io.Reader // the program's stdout
	out   *bufio.Reader
	ended chan error
	host  net.Listener
}

func newClient(t testing.TB, version string) *client {
	t.Helper()
	t.Setenv("HUTCH_RELAY_VERSION", version)
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "5002"))
	if err != nil {
		t.Fatal(err)
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := &client{t: t, in: inW, raw: outR, out: bufio.NewReaderSize(outR, 1<<20), ended: make(chan error, 1), host: l}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		var d net.Dialer
		err := relay.Run(ctx, inR, outW, func(ctx context.Context) (net.Conn, error) {
			return d.DialContext(ctx, "unix", l.Addr().String())
		}, "my agent\x01", false)
		outW.Close()
		c.ended <- err
		close(c.ended)
	}()
	t.Cleanup(func() {
		cancel()
		outR.Close()
		for range c.ended {
		}
		l.Close()
	})
	return c
}

func (c *client) say(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) want(line string) {
	c.t.Helper()
	got, err := c.out.ReadString('\n')
	if got != line+"\n" || err != nil {
		c.t.Fatalf("client got %.200q, %v; want %.200q", got, err, line)
	}
}

// wantError reads the error response to a request.
func (c *client) wantError(id string, code int) {
	c.t.Helper()
	got, err := c.out.ReadBytes('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	var m struct {
		ID    json.RawMessage
		Error struct{ Code int }
	}
	if err := json.Unmarshal(got, &m); err != nil || string(m.ID) != id || m.Error.Code != code {
		c.t.Fatalf("client got %.200q, %v; want error %d for %s", got, err, code, id)
	}
}

// A host is the host's end of a connection.
type host struct {
	t    testing.TB
	conn net.Conn
	in   *frame.Reader
	out  *frame.Writer
}

func (c *client) accept() *host {
	c.t.Helper()
	conn, err := c.host.Accept()
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	h := &host{t: c.t, conn: conn, in: frame.NewReader(conn), out: frame.NewWriter(conn)}
	h.in.Ordered = true
	if name, err := h.in.Preamble(); name != "my_agent_" || err != nil {
		c.t.Fatalf("preamble %q, %v", name, err)
	}
	return h
}

func (h *host) want(flags uint16, payload string) frame.Frame {
	h.t.Helper()
	f, err := h.in.Next()
	if err != nil {
		h.t.Fatal(err)
	}
	if f.Flags != flags || string(f.Payload) != payload || f.Process != "my_agent_" {
		h.t.Fatalf("host got %+v %.200q; want flags %d, %.200q", f, f.Payload, flags, payload)
	}
	return f
}

func (h *host) say(stream uint32, flags uint16, payload string) {
	h.t.Helper()
	v := uint8(frame.Version1)
	if flags&frame.FromHost != 0 || len(payload) > 1<<20 {
		v = frame.Version2
	}
	if err := h.out.WriteFrame(frame.Frame{Version: v, Stream: stream, Flags: flags, Payload: []byte(payload)}); err != nil {
		h.t.Fatal(err)
	}
}

const (
	initialize  = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"x":1}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	hello       = `{"jsonrpc":"2.0","id":0,"result":{}}`
)

// begin makes the two sides say initialize.
func begin(c *client) *host {
	c.t.Helper()
	c.say(initialize)
	h := c.accept()
	h.say(h.want(0, initialize).Stream, 0, hello)
	c.want(hello)
	c.say(initialized)
	h.want(frame.Notification, initialized)
	return h
}

func TestSession(t *testing.T) {
	for _, version := range []string{"1", "2"} {
		c := newClient(t, version)
		h := begin(c)
		c.say(`{"jsonrpc":"2.0","id":"a","method":"tools/list"}`)
		c.say("\t \r")
		c.say(`  {"jsonrpc":"2.0","id":12345678901234567890,"method":"ping","more":[1e400]} ` + "\r")
		one := h.want(0, `{"jsonrpc":"2.0","id":"a","method":"tools/list"}`)
		two := h.want(0, `{"jsonrpc":"2.0","id":12345678901234567890,"method":"ping","more":[1e400]}`)
		if fmt.Sprint(one.Version) != version || one.Stream >= two.Stream {
			t.Errorf("version %d, streams %d and %d", one.Version, one.Stream, two.Stream)
		}
		h.say(two.Stream, 0, "{\"jsonrpc\":\"2.0\",\r\n\"id\":12345678901234567890,\"result\":{}}")
		c.want(`{"jsonrpc":"2.0",  "id":12345678901234567890,"result":{}}`)
		h.say(0, frame.Notification, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		c.want(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		h.say(one.Stream, 0, `{"jsonrpc":"2.0","id":"a","result":{"tools":[]}}`)
		c.want(`{"jsonrpc":"2.0","id":"a","result":{"tools":[]}}`)
		h.say(one.Stream, 0, `{"jsonrpc":"2.0","id":"a","result":"twice"}`)
		h.say(99, 0, `{"jsonrpc":"2.0","id":"b","result":"nobody asked"}`)
		h.say(0, frame.Notification, `{"jsonrpc":"2.0","method":"last"}`)
		c.want(`{"jsonrpc":"2.0","method":"last"}`)
	}
}

// TestTrace has the requests that say no trace be part of the environment's, and
// every other byte stay.
func TestTrace(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	t.Setenv("TRACEPARENT", parent)
	t.Setenv("TRACESTATE", "a=b")
	c := newClient(t, "2")
	var h *host
	for _, tt := range []struct{ in, want string }{
		{`{"id":1,"method":"m"}`, `{"id":1,"method":"m","params":{"_meta":{"traceparent":"P","tracestate":"a=b"}}}`},
		{`{"params":{ "x":[1e400] },"id":1,"method":"m"}`, `{"params":{"_meta":{"traceparent":"P","tracestate":"a=b"}, "x":[1e400] },"id":1,"method":"m"}`},
		{`{"id":1,"method":"m","params":{"_meta":{"progressToken":1}}}`, `{"id":1,"method":"m","params":{"_meta":{"traceparent":"P","tracestate":"a=b","progressToken":1}}}`},
		{`{"id":1,"method":"m","params":{"_meta":{"traceparent":"own"}}}`, ``},
		{`{"id":1,"method":"m","params":[1]}`, ``},
		{`{"method":"m"}`, ``},
		{`{"id":1,"method":"m","params":{"x":"` + strings.Repeat("x", frame.MaxMessage-100) + `"}}`, ``},
		{`not JSON`, ``},
	} {
		want := strings.ReplaceAll(cmp.Or(tt.want, tt.in), `"P"`, `"`+parent+`"`)
		c.say(tt.in)
		if h == nil {
			h = c.accept()
		}
		f, err := h.in.Next()
		if err != nil || string(f.Payload) != want {
			t.Errorf("%.100s: host got %.200s, %v; want %.200s", tt.in, f.Payload, err, want)
		}
	}
}

func TestHostAsks(t *testing.T) {
	c := newClient(t, "2")
	h := begin(c)
	h.say(7, frame.FromHost, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
	h.say(8, frame.FromHost, `{"jsonrpc":"2.0","id":"1","method":"sampling/createMessage"}`)
	c.want(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
	c.want(`{"jsonrpc":"2.0","id":"1","method":"sampling/createMessage"}`)
	c.say(`{"jsonrpc":"2.0","id":"1","error":{"code":-1,"message":"no"}}`)
	c.say(`{"jsonrpc":"2.0","id":5,"result":"to nothing"}`)
	c.say(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`)
	if f := h.want(frame.FromHost, `{"jsonrpc":"2.0","id":"1","error":{"code":-1,"message":"no"}}`); f.Stream != 8 {
		t.Errorf("stream %d", f.Stream)
	}
	if f := h.want(frame.FromHost, `{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`); f.Stream != 7 {
		t.Errorf("stream %d", f.Stream)
	}
}

func TestLargeMessages(t *testing.T) {
	c := newClient(t, "2")
	h := begin(c)
	big := `{"jsonrpc":"2.0","id":1,"method":"x","params":"` + strings.Repeat("y", 5<<20) + `"}`
	go c.say(big)
	f := h.want(0, big)
	answer := `{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("z", 5<<20) + `"}`
	go h.say(f.Stream, 0, answer)
	c.want(answer)
}

func TestTooLargeMessages(t *testing.T) {
	c := newClient(t, "1")
	h := begin(c)
	fill := strings.Repeat("y", 2<<20)
	go c.say(`{"jsonrpc":"2.0","id":"big","method":"x","params":"` + fill + `"}`)
	c.wantError(`"big"`, -32600)
	go c.say(fill)
	c.wantError(`null`, -32600)
	h.say(3, frame.FromHost, `{"jsonrpc":"2.0","id":9,"method":"roots/list"}`)
	c.want(`{"jsonrpc":"2.0","id":9,"method":"roots/list"}`)
	go c.say(`{"jsonrpc":"2.0","id":9,"result":"` + fill + `"}`)
	f, err := h.in.Next()
	if err != nil || f.Stream != 3 || f.Flags != frame.FromHost || !strings.Contains(string(f.Payload), "message too large") {
		t.Errorf("host got %+v, %v", f, err)
	}
}

func TestRubbishIsPassedOn(t *testing.T) {
	c := newClient(t, "2")
	h := begin(c)
	for _, line := range []string{`not JSON`, `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `{}`, `"x"`, `{"id":null,"method":"m"}`} {
		c.say(line)
		h.say(h.want(0, line).Stream, 0, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`)
		c.wantError("null", -32700)
	}
}

func TestLostConnection(t *testing.T) {
	c := newClient(t, "2")
	h := begin(c)
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`)
	h.want(0, `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`)
	h.conn.Close()
	c.wantError("1", -32001)
	for range 2 {
		h = c.accept()
		h.say(h.want(0, initialize).Stream, 0, hello) // and the client sees nothing of it
		h.want(frame.Notification, initialized)
		c.say(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		f := h.want(0, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		h.say(f.Stream, 0, `{"jsonrpc":"2.0","id":2,"result":{}}`)
		c.want(`{"jsonrpc":"2.0","id":2,"result":{}}`)
		h.conn.Close()
	}
}

// TestLostInitialize loses the connection before the answer to initialize,
// which the client gets all the same.
func TestLostInitialize(t *testing.T) {
	c := newClient(t, "2")
	c.say(initialize)
	h := c.accept()
	h.want(0, initialize)
	h.conn.Close()
	h = c.accept()
	h.say(h.want(0, initialize).Stream, 0, hello)
	c.want(hello)
}

func TestEndOfInput(t *testing.T) {
	c := newClient(t, "2")
	h := begin(c)
	c.say(`{"jsonrpc":"2.0","id":1,"method":"slow"}`)
	f := h.want(0, `{"jsonrpc":"2.0","id":1,"method":"slow"}`)
	io.WriteString(c.in, `{"jsonrpc":"2.0","id":2,"method":"unended"}`)
	c.in.Close()
	g := h.want(0, `{"jsonrpc":"2.0","id":2,"method":"unended"}`)
	if _, err := h.in.Next(); err != io.EOF {
		t.Fatalf("after the end: %v", err)
	}
	h.say(f.Stream, 0, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	c.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	h.say(g.Stream, 0, `{"jsonrpc":"2.0","id":2,"result":{}}`)
	c.want(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	if err := <-c.ended; err != nil {
		t.Error(err)
	}
}

// The relay does not end before its client has the last answer.
func TestEndOfInputWithSlowReader(t *testing.T) {
	c := newClient(t, "2")
	h := begin(c)
	c.say(`{"jsonrpc":"2.0","id":1,"method":"last"}`)
	f := h.want(0, `{"jsonrpc":"2.0","id":1,"method":"last"}`)
	h.say(f.Stream, 0, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	first := make([]byte, 1)
	if _, err := io.ReadFull(c.raw, first); err != nil {
		t.Fatal(err)
	}
	c.in.Close()
	if _, err := h.in.Next(); err != io.EOF {
		t.Fatalf("after the end: %v", err)
	}
	select {
	case <-c.ended:
		t.Error("the relay ended before its answer was read")
	case <-time.After(50 * time.Millisecond):
	}
	c.want(`"jsonrpc":"2.0","id":1,"result":{}}`)
}

func TestEndOfInputWithLostConnection(t *testing.T) {
	c := newClient(t, "2")
	h := begin(c)
	c.say(`{"jsonrpc":"2.0","id":1,"method":"slow"}`)
	h.want(0, `{"jsonrpc":"2.0","id":1,"method":"slow"}`)
	c.in.Close()
	if _, err := h.in.Next(); err != io.EOF {
		t.Fatalf("after the end: %v", err)
	}
	h.conn.Close()
	c.wantError("1", -32001)
	if err := <-c.ended; err != nil {
		t.Error(err)
	}
}

func TestMalformedAnswer(t *testing.T) {
	c := newClient(t, "2")
	h := begin(c)
	c.say(`{"jsonrpc":"2.0","id":1,"method":"x"}`)
	f := h.want(0, `{"jsonrpc":"2.0","id":1,"method":"x"}`)
	bad := []byte{0, 0, 0, 16, 0x4d, 0x43, 9, 16, 0, 0, 0, byte(f.Stream), 0, 0, 0, 0, 0, 0, 0, 0}
	if _, err := h.conn.Write(bad); err != nil {
		t.Fatal(err)
	}
	c.wantError("1", -32001)
}

func BenchmarkEcho(b *testing.B) {
	c := newClient(b, "2")
	h := begin(c)
	go func() {
		for {
			f, err := h.in.Next()
			if err != nil {
				return
			}
			h.out.WriteFrame(frame.Frame{Version: f.Version, Stream: f.Stream, Payload: f.Payload})
		}
	}()
	line := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"local__echo","arguments":{"text":"hello"}}}`
	b.ResetTimer()
	for b.Loop() {
		c.say(line)
		c.want(line)
	}
}

// A client that has said all is not waited for where it only listens, or gave up
// what it asked; the connection may have no end of its own direction.
func TestEndOfInputListening(t *testing.T) {
	in, say := io.Pipe()
	ours, its := net.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- relay.Run(t.Context(), in, io.Discard, func(context.Context) (net.Conn, error) { return ours, nil }, "agent", false)
	}()
	h := &host{t: t, conn: its, in: frame.NewReader(its), out: frame.NewWriter(its)}
	go func() {
		for _, line := range []string{
			`{"jsonrpc":"2.0","id":"a","method":"subscriptions/listen"}`, `{"jsonrpc":"2.0","id":2,"method":"slow"}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`,
		} {
			io.WriteString(say, line+"\n")
		}
		say.Close()
	}()
	h.in.Preamble()
	var last frame.Frame
	for range 4 {
		f, err := h.in.Next()
		if err != nil {
			t.Fatal(err)
		}
		last = f
	}
	if string(last.Payload) != `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}` {
		t.Errorf("the host got %s", last.Payload)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
