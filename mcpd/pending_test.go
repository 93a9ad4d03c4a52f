package mcpd

import (
	"encoding/json"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/mcpd/frame"
	"hutch/mcpd/policy"
)

// await waits until test holds.
func await(t *testing.T, what string, test func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !test(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// heap returns how many bytes are in use.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// serve serves a new connection until the test ends, and returns its other end.
func (st *site) serve(t *testing.T) net.Conn {
	a, b := socketPair(t)
	served := make(chan struct{})
	go func() {
		defer close(served)
		st.Serve(t.Context(), b)
	}()
	t.Cleanup(func() {
		a.Close()
		<-served
	})
	return a
}

// moreFrame is a frame of a message that goes on.
func moreFrame(stream uint32, n int) []byte {
	return rawFrame(stream, strings.Repeat("x", n), func(b []byte) []byte {
		b[6], b[13] = frame.Version2, frame.More
		return b
	})
}

// TestUnfinished sends 256 MiB of messages that do not end over 16 connections.
// What is held of them is the budget, and nothing when they are closed.
func TestUnfinished(t *testing.T) {
	st := newSite(t, nil, nil)
	before := heap()
	part := moreFrame(1, 1<<20)
	var written atomic.Int32
	var conns []net.Conn
	for range 16 {
		c := st.serve(t)
		conns = append(conns, c)
		go func() {
			for range 16 {
				if _, err := c.Write(part); err != nil {
					return
				}
			}
			written.Add(1)
		}()
	}
	await(t, "not all is written, and less than the budget is held", func() bool {
		return written.Load() == 16 || st.pending.Used() >= 63<<20
	})
	await(t, "more is held than the budget", func() bool { return heap()-before < 100<<20 }) // what grows is held twice for a moment
	for _, c := range conns {
		c.Close()
	}
	await(t, "something is held of closed connections", func() bool { return st.pending.Used() == 0 })
	await(t, "the memory does not go back", func() bool { return heap()-before < 10<<20 })
}

// TestUnread makes calls whose answers are not read: what there is no room for
// is an error, and that is told.
func TestUnread(t *testing.T) {
	st := newSite(t, nil, testServers("srv"), policy.List{Server: "srv", Allowed: []string{"*"}})
	st.SetPending(2 << 20)
	c := st.serve(t)
	w, r := frame.NewWriter(c), frame.NewReader(c)
	const calls = 12
	for i := range uint32(calls) {
		b := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"srv__big","arguments":{"size":1000000}}}`, i)
		if err := w.WriteFrame(frame.Frame{Version: 2, Stream: i + 1, Payload: []byte(b)}); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the calls do not end", func() bool {
		n := st.Count()
		return n.Allowed+n.Denied+n.Failed == calls
	})
	if n := st.pending.Used(); n > 4<<20 {
		t.Errorf("%d bytes held", n)
	}
	refused := 0
	for range calls {
		f, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		var m reply
		if err := json.Unmarshal(f.Payload, &m); err != nil {
			t.Fatal(err)
		}
		if m.Error != nil && m.Error.Code == jsonrpc.CodeBusy && strings.Contains(m.Error.Message, "no room for an answer") {
			refused++
		} else if m.Error != nil {
			t.Errorf("%+v", m.Error)
		}
	}
	if refused < calls/2 || refused > calls-4 {
		t.Errorf("%d of %d answers refused", refused, calls)
	}
	if !st.saw("mcp.pending") {
		t.Error("no event")
	}
	await(t, "something is held after all was read", func() bool { return st.pending.Used() == 0 })
}
