package aggd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
)

// A streamable carries messages by streamable HTTP (revision 2025-03-26 and
// later): each in a POST of its own, answered by JSON or by a stream of events, and
// one more stream, by GET, for what the server says unasked.
type streamable struct {
	c      *conn
	peer   *httpPeer
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu       sync.Mutex // guards what follows
	session  string
	protocol string
}

const (
	retryEvents    = time.Second // before a stream that broke is resumed, unless the server says otherwise
	retryEventsMax = 30 * time.Second
	maxResumes     = 5 // tries in a row that bring nothing
	lingerEvents   = 2 * time.Second
)

func openStreamable(ctx context.Context, c *conn, def definition) error {
	peer, err := openPeer(ctx, c, def)
	if err != nil {
		return err
	}
	t := &streamable{c: c, peer: peer}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	c.transport = t
	t.tasks.Go(func() { peer.watch(t.ctx, c) })
	return nil
}

func (t *streamable) header() http.Header {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := http.Header{}
	if t.session != "" {
		h.Set(sessionHeader, t.session)
	}
	if t.protocol != "" {
		h.Set(protocolHeader, t.protocol)
	}
	return h
}

// send posts one message and takes the answer.
func (t *streamable) send(ctx context.Context, msg []byte, q *call) error {
	if t.ctx.Err() != nil {
		return errClosed
	}
	header := t.header()
	switch {
	case q != nil && q.stateless:
		t.c.up.mirror(header, q.method, q.params)
	case header.Get(protocolHeader) == jsonrpc.Stateless:
		return nil // in which clients only make requests, and cancel them by hanging up
	}
	header.Set("Accept", "application/json, "+eventStream)
	exchange, cancel := context.WithCancel(t.ctx)
	abandon := context.AfterFunc(ctx, cancel)
	resp, err := t.peer.post(exchange, t.peer.def.URL, msg, header)
	if err == nil {
		if err = t.accept(resp, q); err != nil {
			resp.Body.Close()
		}
	}
	if err != nil {
		abandon()
		cancel()
		return err
	}
	if contentType(resp) == eventStream {
		t.tasks.Go(func() {
			defer cancel()
			defer resp.Body.Close()
			t.events(ctx, resp.Body, q)
		})
		if !(q != nil && q.stateless) && abandon() { // the stream ends with the call, or a little later
			context.AfterFunc(ctx, func() { time.AfterFunc(lingerEvents, cancel) })
		}
		return nil
	}
	defer cancel()
	defer abandon()
	defer resp.Body.Close()
	return t.single(resp, q)
}

// accept looks at the status of an answer to q, if that is not nil.
func (t *streamable) accept(resp *http.Response, q *call) error {
	code := resp.StatusCode
	good := code >= 200 && code < 300
	var why *httpError
	if !good {
		why = t.peer.failure(resp)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if id := resp.Header.Get(sessionHeader); id != "" && t.session == "" && !(q != nil && q.stateless) {
		t.session = id
	}
	switch {
	case good:
		return nil
	case (code == http.StatusNotFound || code == http.StatusGone) && t.session != "" && !why.answers(q):
		return errSession
	case t.protocol == "" && (code == 400 || code == 404 || code == 405 || code == 406 || code == 415 || code == 422):
		return fmt.Errorf("%w: %w", errNotSpoken, why)
	}
	return why
}

// single takes an answer that is no stream.
func (t *streamable) single(resp *http.Response, q *call) error {
	text, err := t.peer.body(resp)
	var long *wire.TooLong
	switch {
	case errors.As(err, &long):
		t.c.tooLong(long, q)
		return nil
	case err != nil:
		return t.peer.why(t.ctx, fmt.Errorf("connection lost in the middle of the answer: %w", err))
	case q == nil && contentType(resp) != "application/json":
		return nil
	case contentType(resp) == "application/json" && len(bytes.TrimSpace(text)) > 0:
		t.c.receive(bytes.TrimSpace(text), q)
	}
	if q != nil {
		q.settle(outcome{err: fmt.Errorf("the server's answer (HTTP %d, %q) holds no response", resp.StatusCode, contentType(resp))})
	}
	return nil
}

// events reads the stream that answers q. One that breaks before the answer is
// resumed, where the server gave its events ids.
func (t *streamable) events(ctx context.Context, stream io.Reader, q *call) {
	r := newEventReader(stream, t.peer.limit())
	err := t.c.readEvents(r, q)
	for tries := 0; q != nil && !q.stateless && !q.settled.Load() && r.lastID != "" && tries < maxResumes; tries++ {
		if !pause(resumeAfter(r), ctx.Done(), t.ctx.Done()) {
			return
		}
		next, stop, e := t.resume(ctx, r)
		if e != nil {
			err = e
			continue
		}
		last := next.lastID
		err = t.c.readEvents(next, q)
		stop()
		if next.lastID != last {
			tries = 0
		}
		r = next
	}
	if q != nil {
		q.settle(outcome{err: t.peer.why(ctx, fmt.Errorf("connection lost before the answer: %w", err))})
	}
}

// resume opens a stream that goes on where r ended. It ends with ctx, or by stop.
func (t *streamable) resume(ctx context.Context, r *eventReader) (next *eventReader, stop func(), err error) {
	header := t.header()
	if r.lastID != "" {
		header.Set("Last-Event-ID", r.lastID)
	}
	exchange, cancel := context.WithCancel(t.ctx)
	abandon := context.AfterFunc(ctx, cancel)
	resp, err := t.peer.stream(exchange, header)
	if err != nil {
		abandon()
		cancel()
		return nil, nil, err
	}
	next = newEventReader(resp.Body, r.limit)
	next.lastID, next.retry = r.lastID, r.retry
	return next, func() { abandon(); cancel(); resp.Body.Close() }, nil
}

func resumeAfter(r *eventReader) time.Duration {
	if r.retry > 0 {
		return min(r.retry, retryEventsMax)
	}
	return retryEvents
}

// begin opens the stream for what the server says unasked.
func (t *streamable) begin(protocol string) {
	t.mu.Lock()
	t.protocol = protocol
	t.mu.Unlock()
	if protocol != jsonrpc.Stateless {
		t.tasks.Go(t.listen)
	}
}

// listen reads that stream, if the server offers one, and opens it again when it
// breaks.
func (t *streamable) listen() {
	r := newEventReader(nil, t.peer.limit())
	for failures := 0; ; {
		next, stop, err := t.resume(t.ctx, r)
		var refused *httpError
		switch {
		case errors.As(err, &refused) && refused.status < 500:
			return // there is none
		case err != nil:
			failures++
		default:
			failures = 0
			t.c.readEvents(next, nil)
			stop()
			r = next
		}
		if !pause(min(resumeAfter(r)<<min(failures, 5), retryEventsMax), t.ctx.Done(), nil) {
			return
		}
	}
}

// close gives the session back.
func (t *streamable) close() {
	t.cancel()
	header := t.header()
	if header.Get(sessionHeader) != "" && !errors.Is(t.c.cause, errSession) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		// Not by do: whose token is refused does not wait here for another.
		if resp, err := t.peer.try(ctx, http.MethodDelete, t.peer.def.URL, nil, header, t.peer.token()); err == nil {
			resp.Body.Close()
		}
	}
	t.tasks.Wait()
	t.peer.close()
}
