package mcpd

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// Limits of what waits for a client to come back with answers.
const (
	maxExchanges     = 32        // calls of one session
	maxExchangeBytes = 64 << 20  // of the requests of all sessions, and of what their servers ask
	exchangeCost     = 128 << 10 // that one counts as at least
)

// How the requestState of a result begins: the endpoint's own; and one of a server,
// as another endpoint is, that would be taken for that.
const (
	statePrefix = "hutch:"
	otherPrefix = statePrefix + ":"
)

// tellApart returns a server's result with a requestState that is not taken for the
// endpoint's.
func tellApart(result json.RawMessage) json.RawMessage {
	if state := rawjson.GetString(result, "requestState"); strings.HasPrefix(state, statePrefix) {
		return rawjson.Set(result, rawjson.Quote(otherPrefix+state), "requestState")
	}
	return result
}

// An exchange is a call of a client of revision 2026-07-28 whose server asks the
// client for something meanwhile, as servers of older revisions do. That is the
// result of the client's request then (input_required); the call goes on when the
// client makes the same request again with the answers.
type exchange struct {
	session *session
	client  *client
	about   [sha256.Size]byte // what the request is about
	verdict verdict
	ctx     context.Context
	cancel  context.CancelCauseFunc
	over    chan struct{} // closed when the server has answered
	result  json.RawMessage
	err     *Error
	news    chan struct{} // has one token when something is asked that the client was not told of

	mu      sync.Mutex // guards what follows
	call    *call      // the last request
	waiting map[string]*question
	last    int
	expiry  *time.Timer // of the time that the client may take; nil: it waits itself
}

// A question is one of a server in an exchange.
type question struct {
	method string
	params json.RawMessage
	answer chan json.RawMessage
}

// exchanges are those of a session that wait for the client, by their requestState.
type exchanges struct {
	tasks sync.WaitGroup

	mu   sync.Mutex // guards the map
	held map[string]*exchange
}

// exchanging does what answers the call, while which its client may be asked for
// something.
func (c *call) exchanging(do func(x *exchange) (json.RawMessage, *Error)) *exchange {
	x := &exchange{
		session: c.session, client: c.client, about: c.about(), verdict: c.verdict, call: c,
		over: make(chan struct{}), news: make(chan struct{}, 1), waiting: make(map[string]*question),
	}
	x.ctx, x.cancel = context.WithCancelCause(c.session.ctx)
	c.session.exchanges.tasks.Go(func() {
		defer close(x.over)
		defer x.cancel(nil)
		x.result, x.err = do(x)
	})
	return x
}

// about is a sum of what the call is about, as its client said it: one that makes it
// again has to mean the same by it.
func (c *call) about() [sha256.Size]byte {
	args, err := rawjson.Canonical(c.said)
	if err != nil {
		args = c.said
	}
	return sha256.Sum256(slices.Concat([]byte(c.message.Method+"\n"+c.tool+"\n"), args))
}

// await waits until there is a result, or something for the client to answer.
func (x *exchange) await(ctx context.Context) (json.RawMessage, *Error) {
	for {
		select {
		case <-x.over:
			return x.result, x.err
		case <-x.news:
			if asked, err := x.hold(); asked != nil || err != nil {
				return asked, err
			}
		case <-ctx.Done():
			x.cancel(context.Cause(ctx))
			<-x.over
			err := ended(ctx)
			if x.err != nil {
				err.Data = x.err.Data
			}
			return nil, err
		}
	}
}

// hold keeps the exchange until the client comes back, and returns what it is to
// answer; nothing if that is not asked any more.
func (x *exchange) hold() (json.RawMessage, *Error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.waiting) == 0 {
		return nil, nil
	}
	state := statePrefix + rand.Text()
	x.expiry = time.AfterFunc(askTime, func() {
		if x.session.exchanges.remove(x.session.e, state) != nil {
			x.cancel(&overdue{askTime})
		}
	})
	if !x.session.exchanges.add(x.session.e, state, x) {
		x.expiry.Stop()
		err := failure(jsonrpc.CodeBusy, "too many calls wait for answers of clients: %d in a session, %d MiB of requests in all", maxExchanges, maxExchangeBytes>>20)
		x.cancel(err)
		return nil, err
	}
	return x.required(state), nil
}

// required is the result that has the client answer what is asked.
func (x *exchange) required(state string) json.RawMessage {
	b := []byte(`{"resultType":"input_required","inputRequests":{`)
	for i, key := range slices.Sorted(maps.Keys(x.waiting)) {
		if i > 0 {
			b = append(b, ',')
		}
		q := x.waiting[key]
		b = append(rawjson.AppendString(b, key), `:{"method":`...)
		b = rawjson.AppendString(b, q.method)
		if len(q.params) > 0 {
			b = append(append(b, `,"params":`...), q.params...)
		}
		b = append(b, '}')
	}
	return append(rawjson.AppendString(append(b, `},"requestState":`...), state), '}')
}

// cost is how much of maxExchangeBytes the exchange takes while it is kept.
func (x *exchange) cost() int64 { return int64(max(x.call.sent, exchangeCost)) }

// add keeps an exchange, unless there are too many.
func (xs *exchanges) add(e *Endpoint, state string, x *exchange) bool {
	xs.mu.Lock()
	defer xs.mu.Unlock()
	if len(xs.held) >= maxExchanges {
		return false
	}
	if e.exchangeBytes.Add(x.cost()) > maxExchangeBytes {
		e.exchangeBytes.Add(-x.cost())
		return false
	}
	xs.held[state] = x
	return true
}

// remove returns an exchange that was kept, and keeps it no longer; nil if there
// is none.
func (xs *exchanges) remove(e *Endpoint, state string) *exchange {
	xs.mu.Lock()
	defer xs.mu.Unlock()
	x := xs.held[state]
	if x != nil {
		delete(xs.held, state)
		e.exchangeBytes.Add(-x.cost())
	}
	return x
}

// drop forgets all, at the end of the session.
func (xs *exchanges) drop(e *Endpoint) {
	xs.tasks.Wait()
	xs.mu.Lock()
	defer xs.mu.Unlock()
	for _, x := range xs.held {
		e.exchangeBytes.Add(-x.cost())
		x.expiry.Stop()
	}
	clear(xs.held)
}

// resume finds the exchange that the call goes on with, if it is one's.
func (c *call) resume() (err *Error) {
	state := rawjson.String(c.message.params.get(pRequestState))
	if !c.stateless() || !strings.HasPrefix(state, statePrefix) {
		return nil
	}
	if theirs, ok := strings.CutPrefix(state, otherPrefix); ok {
		c.message.params, err = scanParams(c.message.params.with(pRequestState, theirs))
		return err
	}
	xs, e := &c.session.exchanges, c.session.e
	xs.mu.Lock()
	x := xs.held[state]
	xs.mu.Unlock()
	if x == nil || x.about != c.about() || x.client.key != c.client.key || xs.remove(e, state) == nil {
		return failure(jsonrpc.CodeParams, "requestState: no such call waits for answers; make it anew")
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.expiry.Stop()
	x.call, c.exchange = c, x
	rawjson.Walk(c.message.params.get(pInputResponses), func(key []byte, start, end int) {
		value := c.message.params.get(pInputResponses)[start:end]
		if q := x.waiting[string(key)]; q != nil && value[0] == '{' {
			delete(x.waiting, string(key))
			q.answer <- value
		}
	})
	if len(x.waiting) > 0 {
		x.tell()
	}
	return nil
}

// tell has the client be told of what is asked.
func (x *exchange) tell() {
	select {
	case x.news <- struct{}{}:
	default:
	}
}

func (x *exchange) offers(capability string) bool {
	return capability != "tasks" && x.client.offers(capability)
}

// ask has the client be asked, and waits for its answer.
func (x *exchange) ask(ctx context.Context, r wire.ServerRequest) (json.RawMessage, *Error) {
	size, kept := int64(len(r.Params)), &x.session.e.exchangeBytes
	defer kept.Add(-size)
	if kept.Add(size) > maxExchangeBytes {
		return nil, failure(jsonrpc.CodeBusy, "too much waits for answers of clients: %d MiB in all", maxExchangeBytes>>20)
	}
	q := &question{method: r.Method, params: r.Params, answer: make(chan json.RawMessage, 1)}
	x.mu.Lock()
	if len(x.waiting) >= maxAsks {
		x.mu.Unlock()
		return nil, failure(jsonrpc.CodeBusy, "too many requests to the client: %d", maxAsks)
	}
	x.last++
	key := strconv.Itoa(x.last)
	x.waiting[key] = q
	x.tell()
	x.mu.Unlock()
	select {
	case result := <-q.answer:
		return result, nil
	case <-ctx.Done():
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.waiting, key)
	return nil, failure(jsonrpc.CodeInternal, "client: %s", context.Cause(ctx))
}

// current returns the last request of the client.
func (x *exchange) current() *call {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.call
}

// progress passes a progress notification on to the request that waits now.
func (x *exchange) progress(params json.RawMessage) {
	c := x.current()
	if token := c.meta.get(mToken); token != nil {
		c.progress(rawjson.Set(params, token, "progressToken"))
	}
}

func (x *exchange) context() context.Context { return x.ctx }

func (c *call) current() *call           { return c }
func (c *call) context() context.Context { return c.ctx }

// An owner is what a server works for, to which what it says meanwhile belongs.
type owner interface {
	current() *call
	context() context.Context
}

// callOf returns the call that what a server says belongs to, or nil.
func callOf(what any) *call {
	if o, ok := what.(owner); ok {
		return o.current()
	}
	return nil
}
