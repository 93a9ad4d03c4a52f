package mcpd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/mcpd/frame"
)

const (
	maxInFlight    = 1024                   // requests of one session
	maxInFlightAll = 8192                   // of all sessions
	linger         = 10 * time.Second       // for answers when a guest that said all it had to may have gone
	hangUpTick     = 100 * time.Millisecond // between looks whether it has
)

// Why a request is given up.
var (
	errLost    = errors.New("connection lost")
	errTimeout = errors.New("timed out")
)

// A session is one connection of the relay, or, without a connection, the
// tree's own requests.
type session struct {
	e       *Endpoint
	conn    net.Conn
	account *frame.Account // of what is pending
	in      *frame.Reader
	out     *frame.Writer
	ctx     context.Context // ends with the connection
	cancel  context.CancelCauseFunc
	calls   sync.WaitGroup
	process string // of the preamble
	id      string // for the policy; "": it has no connection
	asks    asks   // the host's requests to the guest
	noted   sync.Map

	exchanges exchanges
	finished  chan struct{} // closed when the guest has said all it had to

	principal string // who asks through the tree; "": the guest

	version atomic.Uint32          // of the last frame
	client  atomic.Pointer[client] // what initialize said
	alone   atomic.Pointer[client] // what the last request said that speaks for itself
	level   atomic.Int32           // of logging/setLevel

	mu       sync.Mutex // guards what follows
	inFlight map[*call]struct{}
}

func newSession(e *Endpoint, conn net.Conn) *session {
	s := &session{
		e:         e,
		conn:      conn,
		process:   "unknown",
		asks:      asks{waiting: make(map[uint32]*ask)},
		exchanges: exchanges{held: make(map[string]*exchange)},
		finished:  make(chan struct{}),
		inFlight:  make(map[*call]struct{}),
	}
	s.ctx, s.cancel = context.WithCancelCause(e.ctx)
	s.client.Store(&client{})
	s.level.Store(noLevel)
	s.version.Store(frame.Version1)
	if conn != nil {
		s.id = strconv.FormatUint(e.number.Add(1), 10)
		s.account = e.pending.Open(s.stalled)
		s.in, s.out = frame.NewReader(conn), frame.NewWriter(conn)
		s.in.Ordered, s.in.Account, s.out.Account = true, s.account, s.account
	}
	return s
}

// hangUp ends the session from this side.
func (s *session) hangUp() {
	s.cancel(errLost)
	s.account.Close()
	s.conn.Close()
}

// stalled ends a session that holds what others wait for.
func (s *session) stalled() {
	s.cancel(frame.ErrStalled)
	s.conn.Close()
}

// serve reads messages until the connection ends, and waits for its calls.
func (s *session) serve() error {
	err := s.read()
	if err == nil {
		s.drain()
		s.out.Flush()
	}
	s.hangUp()
	s.calls.Wait()
	s.exchanges.drop(s.e)
	s.out.Close()
	return err
}

func (s *session) read() error {
	name, err := s.in.Preamble()
	if name != "" {
		s.process = name
	}
	for err == nil {
		var f frame.Frame
		f, err = s.in.Next()
		var bad *frame.BadFrame
		switch {
		case err == nil:
			s.version.Store(uint32(f.Version))
			s.take(f)
		case errors.As(err, &bad):
			err = s.discarded(bad)
		}
	}
	switch {
	case errors.Is(context.Cause(s.ctx), frame.ErrStalled):
		s.note("mcp.pending", frame.ErrStalled.Error())
		return frame.ErrStalled
	case s.ctx.Err() != nil:
		return context.Cause(s.ctx)
	case errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, frame.ErrLength), errors.Is(err, frame.ErrOrder), errors.Is(err, frame.ErrStream), errors.Is(err, frame.ErrPartial):
		s.note("mcp.frame", err.Error())
	}
	return fmt.Errorf("mcp connection: %w", err)
}

// discarded answers a frame that made no sense.
func (s *session) discarded(bad *frame.BadFrame) error {
	kind, why := "mcp.frame", invalid("invalid MCP frame")
	if bad.Full {
		kind, why = "mcp.pending", failure(jsonrpc.CodeBusy, "%s", bad.Reason)
	}
	s.note(kind, bad.Reason)
	if bad.Stream == 0 {
		return nil
	}
	f := frame.Frame{Version: bad.Version, Stream: bad.Stream, Process: s.process}
	f.Payload = response(nil, nil, why)
	return s.out.WriteFrame(f)
}

// note tells of a security event, each kind once a session.
func (s *session) note(kind, text string) {
	if _, told := s.noted.LoadOrStore(kind, true); !told {
		s.e.alert(kind, "", "", fmt.Sprintf("process %s: %s", s.process, text))
	}
}

// take handles one message, whose bytes are held until that is done: of a
// request that is when it was answered.
func (s *session) take(f frame.Frame) {
	held, size := true, len(f.Payload)
	defer func() {
		if held {
			s.account.Give(size)
		}
	}()
	if f.Process = frame.SanitizeName(f.Process); f.Process == "" {
		f.Process = s.process
	}
	var env envelope
	if f.Flags&frame.FromHost == 0 {
		env = s.unseal(&f)
	}
	m, merr := s.parse(f.Payload)
	switch {
	case f.Flags&frame.FromHost != 0:
		if merr == nil && m.Method == "" {
			rawjson.OneLine(f.Payload)
			held = !s.asks.answer(f.Stream, m.Result, m.Error, func() { s.account.Give(size) })
		}
	case f.Flags&frame.Notification != 0:
		s.takeNotification(f, m, merr, env)
	default:
		held = !s.takeRequest(f, m, merr, env, size)
	}
}

// takeRequest starts the call that a request is, and says whether it did, or
// answers what is wrong with it.
func (s *session) takeRequest(f frame.Frame, m message, merr *Error, env envelope, size int) (begun bool) {
	switch {
	case merr != nil:
	case m.Method == "":
		merr = invalid("invalid request: the method is missing")
	case m.ID == nil:
		merr = invalid("invalid request: a request needs an id")
	}
	if merr != nil && env.err != nil {
		merr = s.e.refusedEnvelope(f.Process, m.Method, "", env.err)
	}
	if merr != nil {
		s.out.WriteFrame(frame.Frame{Version: f.Version, Stream: f.Stream, Process: f.Process, Payload: response(m.ID, nil, merr)})
		return false
	}
	rawjson.OneLine(f.Payload)
	if s.principal == "" { // the guest
		env.need(s.e, m)
	}
	return s.request(f, m, env, size)
}

// request starts a call, unless there are too many.
func (s *session) request(f frame.Frame, m message, env envelope, size int) (begun bool) {
	c := &call{
		session: s, client: s.client.Load(), level: noLevel, stream: f.Stream, version: f.Version, process: f.Process, who: s.principal, message: m,
		begun: time.Now(), sent: size, ticket: env.ticket, trace: traceOf(&m.params),
	}
	if why := s.begin(c); why != nil {
		c.reply(nil, why)
		return false
	}
	if env.err != nil {
		c.refuseEnvelope(env.err)
	}
	if err := c.introduce(); c.invalid == nil {
		c.invalid = err
	}
	if m.Method != "initialize" || c.invalid != nil || c.stateless() {
		go c.serve()
		return true
	}
	// Here, so that what follows finds it done, and is answered after it:
	// shells send all they have to say at once.
	if c.invalid = s.hello(c); c.invalid == nil {
		c.client = s.client.Load()
	}
	c.serve()
	return true
}

// begin counts a call in.
func (s *session) begin(c *call) *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.inFlight) >= maxInFlight {
		return failure(jsonrpc.CodeBusy, "too many requests in flight: %d", maxInFlight)
	}
	if s.conn != nil && s.e.inFlight.Add(1) > maxInFlightAll {
		s.e.inFlight.Add(-1)
		return failure(jsonrpc.CodeBusy, "too many requests in flight in all sessions: %d", maxInFlightAll)
	}
	c.ctx, c.cancel = context.WithCancelCause(s.ctx)
	s.inFlight[c] = struct{}{}
	s.calls.Add(1)
	return nil
}

// end counts a call out.
func (s *session) end(c *call) {
	c.cancel(nil)
	s.mu.Lock()
	delete(s.inFlight, c)
	s.mu.Unlock()
	if s.conn != nil {
		if c.making == nil { // else its request is not the client's
			s.account.Give(c.sent)
		}
		s.e.inFlight.Add(-1)
	}
	s.calls.Done()
}

// latest returns the call in flight that came last of those that pass the test, or
// nil.
func (s *session) latest(test func(*call) bool) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var last *call
	for c := range s.inFlight {
		if test(c) && (last == nil || c.begun.After(last.begun)) {
			last = c
		}
	}
	return last
}

// drain waits for the answers to what was asked before the guest closed its
// side. If the guest is gone altogether nobody will read them.
func (s *session) drain() {
	close(s.finished)
	done := make(chan struct{})
	go func() {
		s.calls.Wait()
		close(done)
	}()
	tick := time.NewTicker(hangUpTick)
	defer tick.Stop()
	began := time.Now()
	for {
		select {
		case <-done:
			return
		case <-s.ctx.Done():
		case <-tick.C:
		}
		gone, known := hungUp(s.conn)
		if s.ctx.Err() != nil || gone || !known && time.Since(began) > linger {
			s.cancel(errLost)
			s.conn.Close()
			<-done
			return
		}
	}
}

// response returns a JSON-RPC response.
func response(id, result []byte, err *Error) []byte {
	if err != nil {
		return jsonrpc.Response(id, nil, err.Raw())
	}
	return jsonrpc.Response(id, result, nil)
}
