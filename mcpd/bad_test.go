package mcpd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
	"hutch/mcpd/frame"
	"hutch/mcpd/ledger"
)

// rawFrame is a frame of version 1 with any of its fields wrong.
func rawFrame(stream uint32, payload string, change func(b []byte) []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(payload)))
	b = append(b, 'M', 'C', 1, 16)
	b = binary.BigEndian.AppendUint32(b, stream)
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	b = append(b, payload...)
	if change != nil {
		b = change(b)
	}
	return b
}

// Each trace is written after the session is up. The answer is that on the
// stream of the bad frame; afterwards a ping must be answered, or the
// connection must have ended.
func TestMalformed(t *testing.T) {
	t.Parallel()
	set := func(at int, v ...byte) func([]byte) []byte {
		return func(b []byte) []byte {
			copy(b[at:], v)
			return b
		}
	}
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	const closed = "closed"
	st := newSite(t, nil, nil)
	for _, tt := range []struct {
		name   string
		in     []byte
		answer string // closed: the connection ends; "": no answer, and it goes on
	}{
		{"magic", rawFrame(5, ping, set(4, 'X')), `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid MCP frame"}}`},
		{"version", rawFrame(5, ping, set(6, 9)), `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid MCP frame"}}`},
		{"header length", rawFrame(5, ping, set(7, 20)), `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid MCP frame"}}`},
		{"flags", rawFrame(5, ping, set(12, 0x80)), `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid MCP frame"}}`},
		{"name length", rawFrame(5, ping, set(14, 0, 3)), `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid MCP frame"}}`},
		{"payload length", rawFrame(5, ping, set(16, 1, 2, 3, 4)), `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid MCP frame"}}`},
		{"bad without a stream", rawFrame(0, ping, set(4, 'X')), ``},
		{"total length", rawFrame(5, ping, set(0, 1, 0, 0, 0)), closed},
		{"total length too small", rawFrame(5, ping, set(0, 0, 0, 0, 3)), closed},
		{"stream 0", rawFrame(0, ping, nil), closed},
		{"notification on a stream", rawFrame(5, ping, set(12, 0, 1)), closed},
		{"stream used before", append(rawFrame(5, ping, nil), rawFrame(5, ping, nil)...), closed},
		{"stream below", append(rawFrame(5, ping, nil), rawFrame(4, ping, nil)...), closed},
		{"TLS", []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 more than twenty bytes"), closed},
		{"not JSON", rawFrame(5, `{"jsonrpc"`, nil), `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error: invalid JSON: ends too early"}}`},
		{"empty", rawFrame(5, ``, nil), `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error: invalid JSON: ends too early"}}`},
		{"nesting", rawFrame(5, strings.Repeat("[", 1<<20), nil), `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error: nested deeper than 512"}}`},
		{"batch", rawFrame(5, `[`+ping+`]`, nil), `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request: batches are not supported"}}`},
		{"version of JSON-RPC", rawFrame(5, `{"jsonrpc":"1.0","id":7,"method":"ping"}`, nil), `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"invalid request: jsonrpc must be \"2.0\""}}`},
		{"no method", rawFrame(5, `{"jsonrpc":"2.0","id":7}`, nil), `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"invalid request: the method is missing"}}`},
		{"a response", rawFrame(5, `{"jsonrpc":"2.0","id":7,"result":{}}`, nil), `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"invalid request: the method is missing"}}`},
		{"a notification on a stream", rawFrame(5, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil), `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request: a request needs an id"}}`},
		{"a request as a notification", rawFrame(0, ping, set(12, 0, 1)), ``},
		{"rubbish as a notification", rawFrame(0, `{`, set(12, 0, 1)), ``},
		{"unknown notification", rawFrame(0, `{"jsonrpc":"2.0","method":"notifications/x"}`, set(12, 0, 1)), ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := socketPair(t)
			defer a.Close()
			ended := make(chan error, 1)
			go func() { ended <- st.Serve(t.Context(), b) }()
			a.SetDeadline(time.Now().Add(patience))
			a.Write(frame.AppendPreamble(nil, "agent"))
			a.Write(tt.in)
			r := frame.NewReader(a)
			if tt.answer == closed {
				for {
					if _, err := r.Next(); err != nil {
						break
					}
				}
				if err := <-ended; err == nil {
					t.Error("the connection ended without an error")
				}
				return
			}
			if tt.answer != "" {
				f, err := r.Next()
				if err != nil || f.Stream != 5 || f.Version != 1 || string(f.Payload) != tt.answer {
					t.Errorf("got %s on stream %d, %v, want %s", f.Payload, f.Stream, err, tt.answer)
				}
			}
			a.Write(rawFrame(9, ping, nil))
			if f, err := r.Next(); err != nil || f.Stream != 9 || string(f.Payload) != `{"jsonrpc":"2.0","id":1,"result":{}}` {
				t.Errorf("the next ping: %s on stream %d, %v", f.Payload, f.Stream, err)
			}
			a.Close()
			if err := <-ended; err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("the end: %v", err)
			}
		})
	}
	if !st.saw("mcp.frame") {
		t.Error("no security event")
	}
}

func TestHungServer(t *testing.T) {
	t.Parallel()
	servers := testServers("hang", "one")
	servers[0].ConnectTimeout = wire.Duration(300 * time.Millisecond)
	st := newSite(t, func(cfg *Config) { cfg.Settle = 50 * time.Millisecond }, servers)
	g := st.hello(t, 1, `{}`)
	g.ok("tools/call", `{"name":"one__echo"}`)
	g.fails("tools/call", `{"name":"hang__echo"}`, jsonrpc.CodeInternal, "tool call failed: ")
	if list := string(g.ok("tools/list", "")); !strings.Contains(list, "one__echo") {
		t.Errorf("tools: %s", list)
	}
	st.awaitServers("hang failed") // which it is but for the time of a try
	const why = "server hang: initialize: no answer within 300ms; connect_timeout in its profile allows more; see mcp/servers"
	if got := st.Missing(t.Context(), "hang__echo"); got != why {
		t.Errorf("missing: %q", got)
	}
	if got := st.Missing(t.Context(), "one__none") + st.Missing(t.Context(), "nosuch__x") + st.Missing(t.Context(), "plain"); got != "" {
		t.Errorf("missing: %q", got)
	}
}

// TestUnlistedServer has a server whose list fails: nobody can know then what
// it does not have, and calling it is no violation.
func TestUnlistedServer(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("unlisted"))
	g := st.hello(t, 2, `{}`)
	g.ok("tools/call", `{"name":"unlisted__echo"}`)
	if st.saw("mcp.violation") {
		t.Errorf("events: %q", st.events)
	}
}

func TestDyingServer(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one", "two"))
	g := st.hello(t, 1, `{}`)
	waiting := g.send(g.request("tools/call", `{"name":"two__progress","_meta":{"progressToken":1}}`))
	g.fails("tools/call", `{"name":"one__die"}`, jsonrpc.CodeInternal, "tool call failed: ")
	if m := g.wait(waiting); m.Error != nil {
		t.Errorf("the other server's call: %+v", m.Error)
	}
	g.ok("tools/call", `{"name":"one__echo"}`)
}

func TestRubbish(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("rubbish"))
	g := st.hello(t, 1, `{}`)
	g.ok("tools/call", `{"name":"rubbish__echo"}`)
	if got := string(g.ok("tools/call", `{"name":"rubbish__wrongid"}`)); !strings.Contains(got, "for you") {
		t.Errorf("after the answer to nobody: %s", got)
	}
}

// TestLimits has limits hold for what passes to a server and from it, and others
// put in force while both go on.
func TestLimits(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	g := st.hello(t, 2, `{}`)
	long := func(n int) string {
		return `{"name":"one__echo","arguments":{"x":"` + strings.Repeat("x", n) + `"}}`
	}
	deep := func(n int) string {
		return `{"name":"one__echo","arguments":{"x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}}`
	}
	big := func(n int) string { return fmt.Sprintf(`{"name":"one__big","arguments":{"size":%d}}`, n) }
	g.ok("tools/call", long(1<<20-1000))
	g.fails("tools/call", long(1<<20), jsonrpc.CodeInternal, "over the limit of 1048576")
	g.ok("tools/call", deep(400))
	g.fails("tools/call", deep(520), jsonrpc.CodeParse, "nested deeper than 512")
	for _, tt := range []struct {
		limits             wire.Limits
		long, result, deep int // what passes
	}{
		{wire.Limits{MaxRequest: 4 << 10, MaxResult: 100 << 10, MaxDepth: 20}, 3 << 10, 90 << 10, 15},
		{wire.Limits{MaxRequest: 4 << 20, MaxResult: 20 << 20, MaxDepth: 100}, 4<<20 - 1000, 20<<20 - 1000, 95},
	} {
		if err := st.SetLimits(t.Context(), tt.limits); err != nil {
			t.Fatal(err)
		}
		g.ok("tools/call", long(tt.long))
		g.fails("tools/call", long(tt.long+2000), jsonrpc.CodeInternal, "over the limit of ")
		g.ok("tools/call", big(tt.result))
		g.fails("tools/call", big(tt.result+20<<10), jsonrpc.CodeInternal, "over the limit of ")
		g.ok("tools/call", deep(tt.deep))
		g.fails("tools/call", deep(tt.deep+10), jsonrpc.CodeInvalid, "nested deeper than ")
	}
}

// A guest that does not read what it is sent loses notifications, and nobody
// else anything.
func TestFlood(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one", "two"))
	deaf, err := st.dialDeaf(t)
	if err != nil {
		t.Fatal(err)
	}
	g := st.hello(t, 1, `{}`)
	deaf.Write(rawFrame(2, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one__flood"}}`, nil))
	for range 50 {
		g.ok("tools/call", `{"name":"two__echo"}`)
	}
	g.ok("tools/call", `{"name":"one__echo"}`)
	deaf.Close()
}

// dialDeaf connects a guest that never reads.
func (st *site) dialDeaf(t *testing.T) (io.WriteCloser, error) {
	a := st.serve(t)
	_, err := a.Write(rawFrame(1, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}`, nil))
	return a, err
}

func TestLargeResults(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	v1, v2 := st.hello(t, 1, `{}`), st.hello(t, 2, `{}`)
	big := func(n int) string { return fmt.Sprintf(`{"name":"one__big","arguments":{"size":%d}}`, n) }
	v1.ok("tools/call", big(1<<20))
	v1.fails("tools/call", big(2<<20), jsonrpc.CodeTooLarge, "do not fit a frame of version 1")
	v1.ok("tools/call", big(1))
	if got := v2.ok("tools/call", big(8<<20)); len(got) < 8<<20 {
		t.Errorf("8 MiB in version 2: %d bytes", len(got))
	}
	v2.fails("tools/call", big(30<<20), jsonrpc.CodeInternal, "over the limit of 16777216")
	v2.ok("tools/call", big(1))
	if r := st.lines(4)[3]; r["decision"] != "error" || !strings.Contains(r["error_message"].(string), "too large") {
		t.Errorf("record: %v", r["error_message"])
	}
	v1.fails("tools/call", `{"name":"one__echo","arguments":{"x":"`+strings.Repeat("x", 1<<20)+`"}}`, jsonrpc.CodeInternal, "limit")
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	st := newSite(t, func(cfg *Config) { cfg.CallTimeout = 2 * time.Second }, testServers("one"))
	g := st.hello(t, 1, `{}`)
	g.ok("tools/list", "")
	m := g.do("tools/call", `{"name":"one__wait"}`)
	if m.Error == nil || m.Error.Code != jsonrpc.CodeTimeout || m.Error.Message != "MCP request timed out after 2000 ms" || string(m.Error.Data) != `{"hutch/reached":true}` {
		t.Errorf("got %+v", m.Error)
	}
	if r := st.lines(3)[2]; r["outcome"] != "interrupted" || r["decision"] != "error" {
		t.Errorf("record: %v %v", r["decision"], r["outcome"])
	}
	for !strings.Contains(string(g.ok("resources/read", `{"uri":"capsem://one/events:"}`)), "notifications/cancelled") { // whose limit is another
	}
}

// Slow calls, as many as there may be, hold up nothing but what is too many.
func TestFairness(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	g := st.hello(t, 1, `{}`)
	g.ok("tools/list", "")
	for range maxInFlight {
		g.send(g.request("tools/call", `{"name":"one__wait"}`))
	}
	g.fails("ping", "", jsonrpc.CodeBusy, "too many requests in flight: 1024")
	other := st.hello(t, 1, `{}`)
	other.ok("tools/list", "")
	other.ok("tools/call", `{"name":"one__echo"}`)
	g.conn.Close()
	<-g.over
	st.lines(maxInFlight + 4) // each has its record
}

func TestNoLedger(t *testing.T) {
	t.Parallel()
	st := newSite(t, func(cfg *Config) {
		cfg.Ledger = func() (*ledger.DB, error) { return nil, errors.New("disk on fire") }
	}, testServers("one"))
	g := st.dial(t, 1)
	g.fails("tools/call", `{"name":"one__echo"}`, jsonrpc.CodeInternal, "ledger: disk on fire")
	g.ok("ping", "")
}

// Stop while calls are under way makes them fail; Start makes new ones work.
func TestStopStart(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	g := st.hello(t, 2, `{"elicitation":{}}`)
	ch := g.send(g.request("tools/call", `{"name":"one__wait","_meta":{"progressToken":1}}`))
	g.note("notifications/progress")
	if st.AggregatorPID() == 0 {
		t.Error("no process id of the aggregator that runs")
	}
	if err := st.Stop(); err != nil {
		t.Error(err)
	}
	if pid := st.AggregatorPID(); pid != 0 {
		t.Errorf("process id %d of the stopped aggregator", pid)
	}
	if m := g.wait(ch); m.Error == nil || !strings.Contains(m.Error.Message, "tool call failed: ") {
		t.Errorf("the call under way: %+v", m)
	}
	g.fails("tools/call", `{"name":"one__echo"}`, jsonrpc.CodeInternal, "the machine is not running")
	if err := st.Start(); err != nil {
		t.Fatal(err)
	}
	g.ok("tools/call", `{"name":"one__echo"}`)
	ch = g.send(g.request("tools/call", `{"name":"one__elicit"}`))
	f := <-g.asks
	f.Payload = []byte(`{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}`)
	g.w.WriteFrame(f)
	if m := g.wait(ch); !strings.Contains(string(m.Result), "accept") {
		t.Errorf("after the restart: %s %+v", m.Result, m.Error)
	}
}

// Who has said all it had to is asked nothing more: no answer can come.
func TestAskedAfterTheEnd(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	g := st.hello(t, 2, `{"sampling":{}}`)
	ch := g.send(g.request("tools/call", `{"name":"one__sample"}`))
	<-g.asks
	g.conn.(interface{ CloseWrite() error }).CloseWrite()
	if m := g.wait(ch); !strings.Contains(fmt.Sprintf("%s %+v", m.Result, m.Error), "its input has ended") {
		t.Errorf("%s %+v", m.Result, m.Error)
	}
}

// Close ends everything, whatever is under way.
func TestClose(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	g := st.hello(t, 2, `{"sampling":{}}`)
	g.send(g.request("tools/call", `{"name":"one__wait","_meta":{"progressToken":1}}`))
	g.note("notifications/progress")
	g.send(g.request("tools/call", `{"name":"one__sample"}`))
	<-g.asks
	if err := st.Endpoint.Close(); err != nil {
		t.Error(err)
	}
	<-g.over
	a, b := socketPair(t)
	defer a.Close()
	if err := st.Serve(t.Context(), b); err == nil {
		t.Error("served after Close")
	}
}
