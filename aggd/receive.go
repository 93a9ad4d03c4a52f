package aggd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/fs"
)

// mark is the byte order mark, which some servers write before JSON.
const mark = "\ufeff"

// receive takes one message, or a batch of them, from the server. from is the
// call in whose answer it came, where the transport knows.
func (c *conn) receive(line []byte, from *call) {
	line = bytes.TrimPrefix(line, []byte(mark))
	if len(line) > 0 && line[0] == '[' && json.Valid(line) {
		c.receiveBatch(line, from)
		return
	}
	c.handle(line, from, nil)
}

// handle takes one message, of a batch where that is not nil.
func (c *conn) handle(line []byte, from *call, b *jsonrpc.Batch) {
	m, err := jsonrpc.ParseTo(c.up.agg.limits.Load().MaxDepth, line)
	switch {
	case err != nil:
		c.unreadable(line, err)
	case !m.V2:
		c.noise(line, errors.New("not JSON-RPC 2.0"))
	case m.Method != "" && m.HasID():
		b.Expect()
		c.request(m, from, b)
	case m.Method != "":
		c.throttle()
		c.notification(m, from)
	default:
		c.response(line, m, from)
	}
}

// unreadable takes a line that is not JSON. If it began as the answer to a call,
// no other answer will come.
func (c *conn) unreadable(line []byte, err error) {
	var begun rawjson.Skim
	if len(line) > 0 && line[0] == '{' {
		begun.Write(line)
	}
	q := c.find(begun.ID())
	if q == nil && begun.ID() == nil {
		q = c.onlyCall()
	}
	if q != nil && begun.Answers() {
		q.settle(outcome{err: fmt.Errorf("the answer of the server: %w", err)})
	}
	c.noise(line, err)
}

// noise tells of a line that is passed over, now and then: a server may send
// nothing else.
func (c *conn) noise(line []byte, why error) {
	n := c.passed.Add(1)
	c.garbled.Store(fmt.Sprintf("%q (%v)", fs.Shorten(string(line)), why))
	c.throttle()
	if c.complaints.Allow() {
		c.up.logf("sent what is passed over, %d lines until now (%v): %q", n, why, fs.Shorten(string(line)))
	}
}

// noisy adds to the error of a request without an answer what was passed over of what the
// server sent: the answer may have been in it.
func (c *conn) noisy(err error) error {
	last, _ := c.garbled.Load().(string)
	if last == "" {
		return err
	}
	return fmt.Errorf("%w; of what the server sent %d lines were passed over, the last %s", err, c.passed.Load(), last)
}

// A server may send so many notifications, and lines that nobody waits for, at once,
// and so many a second from then on; one that sends more is read more slowly, and
// nobody else notices.
const (
	notificationBurst = 4096
	notificationRate  = 2000
)

// throttle slows down the reading of a server that sends too much unasked.
func (c *conn) throttle() {
	if wait := c.notices.Reserve().Delay(); wait > 0 {
		pause(wait, c.over, nil)
	}
}

// response settles the call that m answers. What answers none is noise.
func (c *conn) response(line []byte, m jsonrpc.Message, from *call) {
	o := outcome{result: m.Result, rpcError: m.Error}
	if !m.Answers() {
		o = outcome{err: errors.New("the server answered neither with a result nor with an error")}
	}
	q := c.find(m.ID)
	if q == nil && !m.HasID() && o.rpcError != nil { // the server could not read a request
		q = cmp.Or(from, c.onlyCall())
	}
	if q != nil {
		c.mu.Lock()
		news := slices.Collect(maps.Keys(c.news))
		c.mu.Unlock()
		for _, method := range news { // what the call has changed is told before it ends
			c.tellAgain(method, false)
		}
		q.settle(o)
		return
	}
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	if id, ok := jsonrpc.Number(m.ID); ok && id <= last && id > 0 {
		c.throttle() // to a call that was given up
		return
	}
	c.noise(line, errors.New("the answer to no request"))
}

// onlyCall returns the only call under way, or nil.
func (c *conn) onlyCall() *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) != 1 {
		return nil
	}
	for _, q := range c.calls {
		return q
	}
	return nil
}

// notification passes a notification on to the host.
func (c *conn) notification(m jsonrpc.Message, from *call) {
	switch m.Method {
	case wire.Lost, wire.StateChanged: // ours to tell
		return
	case "notifications/progress":
		c.progress(m)
		return
	case "notifications/cancelled":
		c.cancelled(m)
		return
	case "notifications/subscriptions/acknowledged":
		if q := c.find(rawjson.Get(m.Params, "_meta", jsonrpc.MetaSubscription)); q != nil && q.acknowledged != nil {
			select {
			case q.acknowledged <- rawjson.Get(m.Params, "notifications"):
			default:
			}
		}
		return
	}
	if c.stateless.Load() {
		m.Params = unmark(m.Params)
	}
	changed := false
	for _, l := range wire.Lists {
		if m.Method == l.Changed {
			c.up.invalidate(l)
			changed = true
		}
	}
	if changed {
		c.changed(m.Method)
		return
	}
	if from == nil && m.Method != "notifications/resources/updated" {
		from = c.latestCall(true)
	}
	c.up.agg.tell("notification", 0, c.clientOf(from), c.up.name, m.Method, m.Params, from)
}

// joinTime is how long the host is not told of more changes of a list after one.
const joinTime = 100 * time.Millisecond

// changed tells the host that lists changed: of the first change at once, of all that
// follow within joinTime together.
func (c *conn) changed(method string) {
	c.mu.Lock()
	_, told := c.news[method]
	c.news[method] = told
	c.mu.Unlock()
	if told {
		return
	}
	c.up.agg.tell("notification", 0, c.up.client, c.up.name, method, nil, nil)
	c.up.agg.tasks.Go(func() {
		for told := true; told; {
			pause(joinTime, c.over, nil)
			told = c.tellAgain(method, true)
		}
	})
}

// tellAgain tells the host that lists changed, if they have since it was told last, and
// says whether they have. If they have not and last is true, the next change is told at
// once.
func (c *conn) tellAgain(method string, last bool) bool {
	c.mu.Lock()
	again := c.news[method]
	switch {
	case again:
		c.news[method] = false
	case last:
		delete(c.news, method)
	}
	c.mu.Unlock()
	if again {
		c.up.agg.tell("notification", 0, c.up.client, c.up.name, method, nil, nil)
	}
	return again
}

// progress passes a progress notification on with the token its call had.
func (c *conn) progress(m jsonrpc.Message) {
	q := c.find(rawjson.Get(m.Params, "progressToken"))
	if q == nil || q.token == nil || q.settled.Load() {
		return // nobody asked for it, or not any more
	}
	params := rawjson.Set(m.Params, q.token, "progressToken")
	c.up.agg.tell("notification", 0, q.client, c.up.name, m.Method, params, q)
}

// cancelled passes on that the server gave up a request of its own.
func (c *conn) cancelled(m jsonrpc.Message) {
	id := rawjson.Get(m.Params, "requestId")
	if id == nil {
		return
	}
	if q := c.find(id); q != nil && q.acknowledged != nil { // a listen that it ends
		q.settle(outcome{err: errors.New("the server ended it")})
	}
	for _, rid := range c.up.agg.dropReplies(c, id) {
		params := rawjson.Set(m.Params, strconv.AppendUint(nil, rid, 10), "requestId")
		c.up.agg.tell("notification", 0, c.up.client, c.up.name, m.Method, params, nil)
	}
}

// request passes a request of the server on to the host, or answers it.
func (c *conn) request(m jsonrpc.Message, from *call, b *jsonrpc.Batch) {
	q := asked{c, m.ID, b}
	switch {
	case c.stateless.Load():
		c.noise(nil, fmt.Errorf("a request, %.40q, which %s does not have", m.Method, jsonrpc.Stateless))
		return
	case m.Method == "ping":
		q.reply([]byte("{}"), nil)
		return
	case c.up.client == "":
		q.reply(nil, jsonrpc.Errorf(jsonrpc.CodeMethod, "this client offers no %s", m.Method).Raw())
		return
	}
	if from == nil {
		from = c.find(rawjson.Get(m.Params, "_meta", "progressToken"))
	}
	if from == nil || from.request == nil {
		from = c.latestCall(false)
	}
	rid := c.up.agg.expectReply(q)
	switch {
	case rid == 0:
		q.reply(nil, jsonrpc.Errorf(jsonrpc.CodeInternal, "too many requests wait for answers").Raw())
	case c.isOver():
		c.up.agg.dropReplies(c, nil)
	default:
		c.up.agg.tell("request", rid, c.clientOf(from), c.up.name, m.Method, m.Params, from)
	}
}

// find returns the call under way that has an id or a token, or nil.
func (c *conn) find(id []byte) *call {
	n, ok := jsonrpc.Number(id)
	if !ok {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[n]
}

// latestCall returns the latest call under way that the host made, if any; with only
// set, it returns none where there are several.
func (c *conn) latestCall(only bool) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	var latest *call
	for _, q := range c.calls {
		if q.request == nil {
			continue
		}
		if latest != nil && only {
			return nil
		}
		if latest == nil || q.id > latest.id {
			latest = q
		}
	}
	return latest
}

func (c *conn) clientOf(q *call) string {
	if q != nil && q.request != nil {
		return q.client
	}
	return c.up.client
}

// reply answers a request of the server.
func (q asked) reply(result, rpcError []byte) {
	if line := q.batch.Answer(jsonrpc.Response(q.id, result, rpcError)); line != nil {
		q.c.answer(line)
	}
}

// maxAnswering is how many bytes of answers may be on their way to a server, if they
// are not one, each with what it takes to send it.
const (
	maxAnswering = 64 << 20
	answerCost   = 8 << 10
)

// answer sends an answer to the server.
func (c *conn) answer(line []byte) {
	cost := int64(len(line) + answerCost)
	if n := c.answering.Add(cost); n > maxAnswering && n > cost {
		c.answering.Add(-cost)
		c.noise(line, errors.New("the server does not take the answers to what it asks"))
		return
	}
	c.up.agg.tasks.Go(func() {
		defer c.answering.Add(-cost)
		ctx, cancel := context.WithTimeout(context.Background(), c.up.def.connectTimeout())
		defer cancel()
		if err := c.transport.send(ctx, line, nil); err != nil {
			c.up.logf("an answer to it: %v", err)
		}
	})
}
