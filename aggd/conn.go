package aggd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// A transport carries the messages of one session. What comes from the server it
// hands to its conn's receive, tooLong and fail.
type transport interface {
	// send carries msg. c is the request that msg is, or nil. Over HTTP send
	// returns when the server took the message; ctx bounds the whole exchange.
	send(ctx context.Context, msg []byte, c *call) error
	// begin tells that the session was initialized.
	begin(protocol string)
	// close ends the session and waits for all that the transport started.
	close()
}

// A call is a request under way at a server.
type call struct {
	id      uint64          // at the server, and its progress token there
	request json.RawMessage // its id at the host; nil for the aggregator's own
	client  string          // the key of the client it was made for
	method  string
	params  json.RawMessage // as they are sent; the sender's

	stateless    bool                 // of 2026-07-28
	acknowledged chan json.RawMessage // of a subscriptions/listen: what the server agreed to
	token        json.RawMessage      // the progress token it came with
	sent         bool                 // it was, or may have been, written to the server
	outcome      chan outcome
	settled      atomic.Bool
}

// An outcome is what became of a call: one of the three.
type outcome struct {
	result, rpcError json.RawMessage
	err              error
	stateless        bool // of 2026-07-28
	sent             bool // as the call's
}

// failure returns why a call has no result, or nil.
func (o outcome) failure() error {
	if o.err != nil || o.rpcError == nil {
		return o.err
	}
	e := jsonrpc.Received(o.rpcError)
	return fmt.Errorf("%w (%d)", e, e.Code)
}

// fate says what is known of a request that has no answer of MCP.
func (o outcome) fate() wire.Fate {
	var refused *httpError
	switch {
	case !o.sent:
		return wire.NotSent
	case errors.Is(o.err, errSession), errors.As(o.err, &refused) && refused.status < 500:
		return wire.Refused
	}
	return wire.Unknown
}

// unwritten reports whether a transport that returned err has written nothing.
func unwritten(err error) bool {
	return errors.Is(err, errNotSent) || errors.Is(err, errOver) || errors.Is(err, errClosed) || errors.Is(err, wire.ErrStuck)
}

// A conn is one live session with a server.
type conn struct {
	up        *upstream
	transport transport
	over      chan struct{} // closed when the session has ended
	notices   *rate.Limiter // of the server: more are read more slowly

	complaints *rate.Limiter // about lines that are passed over
	passed     atomic.Int64  // how many there were
	garbled    atomic.Value  // a string: the last, and why
	answering  atomic.Int64  // bytes of the answers on their way to the server

	stateless atomic.Bool // the server speaks 2026-07-28
	listens   listens
	pinged    bool  // it has answered a ping; its upstream's run has it
	probe     *call // asks what the server speaks, while a session goes on; nil: nobody does

	mu    sync.Mutex // guards what follows
	last  uint64
	calls map[uint64]*call
	cause error           // why the session ended
	news  map[string]bool // of lists that were told to have changed just now: whether they have again
}

func newConn(up *upstream) *conn {
	return &conn{
		up:      up,
		over:    make(chan struct{}),
		notices: rate.NewLimiter(notificationRate, notificationBurst),

		complaints: rate.NewLimiter(rate.Every(10*time.Second), 5),
		calls:      make(map[uint64]*call),
		news:       make(map[string]bool),
		listens:    listens{byURI: make(map[string]*listen)},
	}
}

// call makes a request and waits for its outcome. request is the host's id of it.
func (c *conn) call(ctx context.Context, request json.RawMessage, client, method string, params json.RawMessage) outcome {
	return c.run(ctx, &call{request: request, client: client}, method, params)
}

// run is call for a call that is begun already.
func (c *conn) run(ctx context.Context, q *call, method string, params json.RawMessage) outcome {
	if err := c.send(ctx, q, method, params); err != nil {
		return outcome{err: err}
	}
	defer c.leave(q)
	select {
	case o := <-q.outcome:
		o.stateless, o.sent = q.stateless, q.sent
		return o
	case <-ctx.Done():
		if method != "initialize" {
			c.tellCancelled(q, context.Cause(ctx))
		}
		return outcome{err: c.noisy(context.Cause(ctx)), sent: q.sent}
	}
}

// start makes a request of which nobody waits for the outcome yet. The caller has it
// leave.
func (c *conn) start(ctx context.Context, request json.RawMessage, client, method string, params json.RawMessage) (*call, error) {
	q := &call{request: request, client: client}
	return q, c.send(ctx, q, method, params)
}

// send sends a request. What goes wrong once it has an id is its outcome.
func (c *conn) send(ctx context.Context, q *call, method string, params json.RawMessage) error {
	if q.stateless = c.stateless.Load() || method == methodDiscover; q.stateless {
		params = c.up.stamp(params)
	}
	q.method, q.token, q.outcome = method, rawjson.Get(params, "_meta", "progressToken"), make(chan outcome, 1)
	if err := c.enter(q); err != nil { // from here on a server may name its id
		return err
	}
	if q.token != nil {
		params = rawjson.Set(params, strconv.AppendUint(nil, q.id, 10), "_meta", "progressToken")
	}
	q.params = params
	err := c.transport.send(ctx, jsonrpc.Request(q.id, method, params), q)
	q.sent = !unwritten(err)
	if err != nil && ctx.Err() == nil {
		q.settle(outcome{err: err})
	}
	return nil
}

func (c *conn) enter(q *call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return fmt.Errorf("%w: %w", errOver, c.cause)
	}
	c.last++
	q.id = c.last
	c.calls[q.id] = q
	return nil
}

func (c *conn) leave(q *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, q.id)
}

// tellCancelled tells the server that nobody waits for q any more.
func (c *conn) tellCancelled(q *call, cause error) {
	params := fmt.Appendf(nil, `{"requestId":%d,"reason":%s}`, q.id, rawjson.Quote(cause.Error()))
	c.up.agg.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		c.transport.send(ctx, jsonrpc.Notification("notifications/cancelled", params), nil)
	})
}

// notify sends a notification.
func (c *conn) notify(ctx context.Context, method string, params json.RawMessage) error {
	return c.transport.send(ctx, jsonrpc.Notification(method, params), nil)
}

// settle gives a call its outcome; the first one counts.
func (q *call) settle(o outcome) {
	if q.settled.CompareAndSwap(false, true) {
		q.outcome <- o
	}
}

// A cut is the error of a call whose session ended. It hides what ended the session: the
// call may have been done, and is not made again.
type cut struct{ why error }

func (e cut) Error() string { return e.why.Error() }

// fail ends the session: every call under way fails with err, and what the host
// is being asked is not asked any more.
func (c *conn) fail(err error) {
	c.mu.Lock()
	if c.cause != nil {
		c.mu.Unlock()
		return
	}
	c.cause = err
	for _, q := range c.calls {
		q.settle(outcome{err: cut{err}})
	}
	close(c.over)
	c.mu.Unlock()
	for _, rid := range c.up.agg.dropReplies(c, nil) {
		params := fmt.Appendf(nil, `{"requestId":%d,"reason":%s}`, rid, rawjson.Quote(err.Error()))
		c.up.agg.tell("notification", 0, c.up.client, c.up.name, "notifications/cancelled", params, nil)
	}
}

// isOver reports whether the session has ended.
func (c *conn) isOver() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

// end closes the session from our side.
func (c *conn) end(err error) {
	c.fail(err)
	c.transport.close()
}

// tooLong fails the call whose answer was over the limit.
func (c *conn) tooLong(e *wire.TooLong, from *call) {
	q := cmp.Or(c.find(e.ID), from)
	if q == nil {
		c.up.logf("dropped a message: %v", e)
		return
	}
	q.settle(outcome{err: fmt.Errorf("the answer of the server: %w", e)})
}
