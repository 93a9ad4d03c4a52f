package relay

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net"
	"sync"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/mcpd/frame"
)

// A link is one connection to the host. Stream ids and the requests under
// way belong to it and end with it.
type link struct {
	r       *relay
	conn    net.Conn
	ctx     context.Context // ends with the connection
	out     *frame.Writer
	greeted bool // it began with the client's initialize

	asking sync.WaitGroup // requests of the client

	mu      sync.Mutex // guards what follows
	dead    bool
	last    uint32            // stream of the last request
	pending map[uint32]asked  // requests of the client
	asked   map[string]uint32 // requests of the host, by id
}

// An asked is a request that the host has not answered.
type asked struct {
	id     []byte
	silent bool          // the relay's own, whose answer the client does not see
	done   chan struct{} // closed at the answer, if not nil
	first  bool          // initialize
	listen bool          // subscriptions/listen, which lasts as long as the client
	part   *part         // of a batch, or nil
	own    func([]byte)  // takes the answer, to a request that the client knows nothing of; or nil
}

// shortest is how long a connection lasts that was of use: one for which the
// host has no room ends sooner.
const shortest = time.Second

// serve relays over conn until it ends, and says whether it was of use.
func (r *relay) serve(ctx context.Context, conn net.Conn) bool {
	begun := time.Now()
	alive, end := context.WithCancel(ctx)
	defer end()
	l := &link{
		r: r, conn: conn, ctx: alive, out: frame.NewWriter(conn),
		pending: make(map[uint32]asked), asked: make(map[string]uint32),
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	var reading sync.WaitGroup
	reading.Go(func() {
		l.read()
		conn.Close()
		l.out.Close()
		l.fail()
		end()
	})
	useful := l.out.Preamble(r.name) == nil && l.greet()
	if useful {
		r.install(l)
	} else {
		conn.Close()
	}
	reading.Wait()
	r.withdraw(l)
	return useful && time.Since(begun) > shortest
}

// greet says on a new connection what the client said on an earlier one.
func (l *link) greet() bool {
	l.r.mu.Lock()
	first, second, answered := l.r.initialize, l.r.initialized, l.r.answered
	l.r.mu.Unlock()
	if first == nil {
		return true
	}
	l.greeted = true
	done := make(chan struct{})
	m := parse(first)
	if !l.ask(&m, asked{id: m.id, silent: answered, first: true, done: done}) {
		return false
	}
	<-done
	if l.isDead() {
		return false
	}
	if second != nil {
		m := parse(second)
		l.send(&m)
	}
	return true
}

func (r *relay) install(l *link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.link = l
	close(r.came)
}

func (r *relay) withdraw(l *link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.link == l {
		r.link = nil
		r.came = make(chan struct{})
	}
}

// send sends a message, and says whether it or its sender has been taken
// care of; if not the next connection has to.
func (l *link) send(m *message) bool {
	f := frame.Frame{Version: l.r.version, Process: l.r.name, Payload: m.line}
	switch m.kind {
	case notice:
		f.Flags = frame.Notification
		l.giveUp(m)
	case response:
		l.mu.Lock()
		stream, ok := l.asked[string(m.id)]
		delete(l.asked, string(m.id))
		l.mu.Unlock()
		if !ok {
			return true // to a question that nobody waits for any more
		}
		f.Version, f.Stream, f.Flags = frame.Version2, stream, frame.FromHost
	default:
		return l.ask(m, asked{id: m.id, first: m.method == "initialize", listen: m.method == "subscriptions/listen", part: m.part})
	}
	return l.out.WriteFrame(f) == nil
}

// ask sends a request. One that was sent is answered, if need be by fail.
func (l *link) ask(m *message, a asked) bool {
	a.id = bytes.Clone(a.id)
	payload := m.line
	if m.kind == request && a.own == nil {
		payload = l.r.traced(m.line)
	}
	if l.r.signer != nil && m.kind == request && a.own == nil {
		if err := l.attest(); err != nil {
			return l.unsigned(a, err)
		}
		payload = l.r.signer.Sign(payload, time.Now())
	}
	l.mu.Lock()
	if l.dead {
		l.mu.Unlock()
		return false
	}
	l.last++
	stream := l.last
	l.pending[stream] = a
	l.asking.Add(1)
	l.mu.Unlock()
	f := frame.Frame{Version: l.r.version, Stream: stream, Process: l.r.name, Payload: payload}
	if l.out.WriteFrame(f) != nil {
		l.conn.Close()
	}
	return true
}

// read takes the host's messages until the connection ends.
func (l *link) read() {
	in := frame.NewReader(l.conn)
	for {
		f, err := in.Next()
		var bad *frame.BadFrame
		switch {
		case errors.As(err, &bad):
			l.answered(bad.Stream)
			continue
		case err != nil:
			return
		case f.Flags&frame.Notification != 0:
			l.r.print(f.Payload)
		case f.Flags&frame.FromHost != 0:
			l.question(f)
		default:
			l.answer(f)
		}
	}
}

// question passes on a request of the host.
func (l *link) question(f frame.Frame) {
	m := parse(f.Payload)
	l.mu.Lock()
	if len(l.asked) < maxAsked {
		l.asked[string(m.id)] = f.Stream
	}
	l.mu.Unlock()
	l.r.print(f.Payload)
}

// owes says whether the client owes the host an answer to the request id.
func (l *link) owes(id []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.asked[string(id)]
	return ok
}

const maxAsked = 1 << 16 // requests of the host that the client owes an answer

// answer passes on the answer to a request.
func (l *link) answer(f frame.Frame) {
	a, ok := l.waits(f.Stream)
	if !ok {
		return
	}
	l.renew(f.Payload)
	if a.first { // before the client knows and goes on
		l.r.agreed(f.Payload)
	}
	switch {
	case a.own != nil:
		a.own(f.Payload)
	case !a.silent:
		l.r.answer(a.part, f.Payload)
	}
	l.finished(f.Stream, a)
}

// waits returns the request that waits for an answer on stream.
func (l *link) waits(stream uint32) (asked, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.pending[stream]
	return a, ok
}

// answered ends a request whose answer was not to be understood.
func (l *link) answered(stream uint32) {
	if a, ok := l.waits(stream); ok {
		if a.own == nil {
			l.r.answer(a.part, failure(a.id, jsonrpc.CodeLost, "the host's answer was malformed"))
		}
		l.finished(stream, a)
	}
}

// finished ends a request whose answer the client has: not before that, as
// the program ends with the last.
func (l *link) finished(stream uint32, a asked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, waits := l.pending[stream]; !waits { // it was given up meanwhile
		return
	}
	if a.done != nil {
		close(a.done)
	}
	delete(l.pending, stream)
	l.asking.Done()
}

// fail answers what was under way when the connection was lost. An
// unanswered initialize is said again on the next one.
func (l *link) fail() {
	l.mu.Lock()
	l.dead = true
	lost := maps.Clone(l.pending)
	l.mu.Unlock()
	for stream, a := range lost {
		if !a.first && a.own == nil {
			l.r.answer(a.part, failure(a.id, jsonrpc.CodeLost, "connection to the host lost"))
		}
		l.finished(stream, a)
	}
}

func (l *link) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// endListens ends what the client listens to, where the host cannot see that it has
// said all.
func (l *link) endListens() {
	l.mu.Lock()
	var ids [][]byte
	for _, a := range l.pending {
		if a.listen {
			ids = append(ids, a.id)
		}
	}
	l.mu.Unlock()
	for _, id := range ids {
		m := parse(jsonrpc.Notification("notifications/cancelled", append(append([]byte(`{"requestId":`), id...), '}')))
		l.send(&m)
	}
}

// halfClose ends this side of the connection. What it returns is closed when
// nothing is to be waited for any more.
func (l *link) halfClose() <-chan struct{} {
	if c, ok := l.conn.(interface{ CloseWrite() error }); ok {
		c.CloseWrite()
	} else {
		l.endListens()
	}
	answered := make(chan struct{})
	go func() {
		l.asking.Wait() // which the end of the connection ends, too
		close(answered)
	}()
	return answered
}
