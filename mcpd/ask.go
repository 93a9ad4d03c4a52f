package mcpd

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/mcpd/frame"
)

const (
	maxAsks = 256              // of the host in one session that have no answer
	askTime = 10 * time.Minute // that a guest may take for one
)

// askable are the requests that a server may make of a client, and the
// capability with which the client offers to answer them.
var askable = map[string]string{
	"sampling/createMessage": "sampling",
	"elicitation/create":     "elicitation",
	"roots/list":             "roots",
	"tasks/get":              "tasks",
	"tasks/result":           "tasks",
	"tasks/list":             "tasks",
	"tasks/cancel":           "tasks",
}

// asks are the requests of the host to a guest that wait for an answer.
type asks struct {
	mu      sync.Mutex // guards what follows
	last    uint32
	waiting map[uint32]*ask
}

// An ask is one of them.
type ask struct {
	client, server string
	token          []byte // of its progress
	answer         chan answer
}

// An answer holds bytes of the session's account until it is done with.
type answer struct {
	result, err json.RawMessage
	done        func()
}

// take returns the answer, and is done with it.
func (a answer) take() (json.RawMessage, *Error) {
	defer a.done()
	if a.result == nil {
		return nil, jsonrpc.Received(a.err)
	}
	return a.result, nil
}

// joined returns a context that ends with either of two.
func joined(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// An answerer is who a server's request is for: a session, or an exchange.
type answerer interface {
	offers(capability string) bool
	ask(context.Context, wire.ServerRequest) (json.RawMessage, *Error)
}

// answerer returns who a server's request is for, and of which session that is; nil
// if nobody is there.
func (e *Endpoint) answerer(r wire.ServerRequest) (answerer, *session) {
	if x, ok := r.Owner.(*exchange); ok {
		return x, x.session
	}
	if s := e.asker(r); s != nil {
		return s, s
	}
	return nil, nil
}

// asker returns the session that a server's request is for: that of the call
// it belongs to. Where a server's protocol does not say which that is, it is
// the only session of the connection, or the one that called the server last.
func (e *Endpoint) asker(r wire.ServerRequest) *session {
	if c, ok := r.Owner.(*call); ok {
		return c.session
	}
	sessions := e.each(func(s *session) bool { return s.is(r.Client) })
	if len(sessions) == 1 {
		return sessions[0]
	}
	var last *call
	for _, s := range sessions {
		if c := s.latest(func(c *call) bool { return c.target() == r.Server }); c != nil && (last == nil || c.begun.After(last.begun)) {
			last = c
		}
	}
	if last == nil {
		return nil
	}
	return last.session
}

// offers reports whether the guest can be asked for what a capability is for.
func (s *session) offers(capability string) bool {
	return s.out != nil && s.version.Load() != frame.Version1 && s.client.Load().offers(capability)
}

// ask sends a request to the guest and waits for its answer.
func (s *session) ask(ctx context.Context, r wire.ServerRequest) (json.RawMessage, *Error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askTime, &overdue{askTime})
	defer cancel()
	a := &ask{client: r.Client, server: r.Server, token: rawjson.Get(r.Params, "_meta", "progressToken"), answer: make(chan answer, 1)}
	stream, ok := s.asks.add(a)
	if !ok {
		return nil, failure(jsonrpc.CodeBusy, "too many requests to the client: %d", maxAsks)
	}
	defer func() {
		s.asks.remove(stream)
		select {
		case late := <-a.answer:
			late.done()
		default:
		}
	}()
	b := jsonrpc.Request(uint64(stream), r.Method, r.Params)
	err := s.out.WriteFrame(frame.Frame{Version: frame.Version2, Stream: stream, Flags: frame.FromHost, Process: s.process, Payload: b})
	if err != nil {
		return nil, failure(jsonrpc.CodeInternal, "client: %s", err)
	}
	select {
	case got := <-a.answer:
		return got.take()
	case <-s.finished: // and the answer, if there is one, was before that
		select {
		case got := <-a.answer:
			return got.take()
		default:
			return nil, failure(jsonrpc.CodeInternal, "client: its input has ended, and no answer is to come")
		}
	case <-s.ctx.Done():
		return nil, failure(jsonrpc.CodeInternal, "client: %s", context.Cause(s.ctx))
	case <-ctx.Done():
		s.notify("notifications/cancelled", append(strconv.AppendUint([]byte(`{"requestId":`), uint64(stream), 10), '}'))
		return nil, failure(jsonrpc.CodeInternal, "client: %s", context.Cause(ctx))
	}
}

func (as *asks) add(a *ask) (stream uint32, ok bool) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if len(as.waiting) >= maxAsks {
		return 0, false
	}
	as.last++
	as.waiting[as.last] = a
	return as.last, true
}

func (as *asks) remove(stream uint32) {
	as.mu.Lock()
	defer as.mu.Unlock()
	delete(as.waiting, stream)
}

// answer gives an ask what the guest answered, and says whether there was one.
func (as *asks) answer(stream uint32, result, err []byte, done func()) bool {
	as.mu.Lock()
	defer as.mu.Unlock()
	a := as.waiting[stream]
	if a == nil || result == nil && err == nil {
		return false
	}
	delete(as.waiting, stream)
	a.answer <- answer{result, err, done}
	return true
}

// about returns the ask that a progress notification of the guest is about.
func (as *asks) about(token []byte) *ask {
	as.mu.Lock()
	defer as.mu.Unlock()
	var latest uint32
	for stream, a := range as.waiting {
		if a.token != nil && bytes.Equal(a.token, token) {
			latest = max(latest, stream)
		}
	}
	return as.waiting[latest]
}
