package aggd

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// receive takes one message, or a batch of them, from the server. from is the
// call in whose answer it came, where the transport knows.
func (c *conn) receive(line []byte, from *call) {
	if len(line) > 0 && line[0] == '[' && json.Valid(line) {
		for _, element := range rawjson.Elements(line) {
			c.take(element, from)
		}
		return
	}
	c.take(line, from)
}

func (c *conn) take(line []byte, from *call) {
	m, err := open(line)
	switch {
	case err != nil:
		c.up.logf("sent rubbish (%v): %.80q", err, line)
	case m.method != "" && m.id != nil:
		c.asks(m, from)
	case m.method != "":
		c.pace()
		c.notified(m, from)
	default:
		c.answered(m, from)
	}
}

// pace slows down the reading of a server that sends too many notifications.
func (c *conn) pace() {
	wait := c.brake.take(time.Now())
	if wait == 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.over:
	}
}

// answered settles the call that m answers.
func (c *conn) answered(m message, from *call) {
	o := outcome{result: m.result, rpcError: m.err}
	if m.result == nil && m.err == nil {
		o.err = fmt.Errorf("the server answered neither with a result nor with an error")
	}
	id, ok := m.number()
	c.mu.Lock()
	q, last := c.calls[id], c.last
	alone := c.alone()
	c.mu.Unlock()
	if ok && q != nil {
		q.settle(o)
		return
	}
	if ok && id <= last && id > 0 {
		return // to a call that was given up
	}
	c.up.logf("answered with the id %.40s, which nobody used", orNull(m.id))
	if from == nil {
		from = alone
	}
	switch {
	case from == nil:
	case m.id == nil && m.err != nil:
		from.settle(o) // the server could not read the request
	default:
		from.settle(outcome{err: fmt.Errorf("%w: %.40s", errWrongID, orNull(m.id))})
	}
}

// alone returns the only call under way, or nil; mu is held.
func (c *conn) alone() *call {
	if len(c.calls) != 1 {
		return nil
	}
	for _, q := range c.calls {
		return q
	}
	return nil
}

func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}

// notified passes a notification on to the host.
func (c *conn) notified(m message, from *call) {
	switch m.method {
	case wire.Lost: // ours to tell
		return
	case "notifications/progress":
		c.progressed(m)
		return
	case "notifications/cancelled":
		c.givenUp(m)
		return
	case "notifications/message":
		if from == nil {
			from = c.hosted(true)
		}
	}
	for _, k := range kinds {
		if m.method == k.changed {
			c.up.invalidate(k)
		}
	}
	c.up.agg.tell("notification", 0, c.clientOf(from), c.up.name, m.method, m.params, from)
}

// progressed passes a progress notification on with the token its call had.
func (c *conn) progressed(m message) {
	id, err := strconv.ParseUint(string(rawjson.Get(m.params, "progressToken")), 10, 64)
	c.mu.Lock()
	q := c.calls[id]
	c.mu.Unlock()
	if err != nil || q == nil || q.token == nil {
		return // nobody asked for it, or not any more
	}
	params := rawjson.Set(m.params, q.token, "progressToken")
	c.up.agg.tell("notification", 0, q.client, c.up.name, m.method, params, q)
}

// givenUp passes on that the server gave up a request of its own.
func (c *conn) givenUp(m message) {
	id := rawjson.Get(m.params, "requestId")
	c.mu.Lock()
	rid, ok := c.asked[string(id)]
	delete(c.asked, string(id))
	c.mu.Unlock()
	if !ok {
		return
	}
	c.up.agg.forget(rid)
	params := rawjson.Set(m.params, strconv.AppendUint(nil, rid, 10), "requestId")
	c.up.agg.tell("notification", 0, c.up.client, c.up.name, m.method, params, nil)
}

// asks passes a request of the server on to the host, or answers it.
func (c *conn) asks(m message, from *call) {
	switch {
	case m.method == "ping":
		c.reply(m.id, []byte("{}"), nil)
		return
	case c.up.client == "":
		c.reply(m.id, nil, encodeError(-32601, "this client offers no "+m.method))
		return
	}
	if token, err := strconv.ParseUint(string(rawjson.Get(m.params, "_meta", "progressToken")), 10, 64); err == nil && from == nil {
		c.mu.Lock()
		from = c.calls[token]
		c.mu.Unlock()
	}
	if from == nil || from.request == nil {
		from = c.hosted(false)
	}
	c.mu.Lock()
	busy := len(c.asked) >= maxAsked
	rid := uint64(0)
	if !busy && c.cause == nil {
		rid = c.up.agg.ask(c, m.id)
		c.asked[string(m.id)] = rid
	}
	c.mu.Unlock()
	switch {
	case busy:
		c.reply(m.id, nil, encodeError(-32603, "too many requests wait for answers"))
	case rid != 0:
		c.up.agg.tell("request", rid, c.clientOf(from), c.up.name, m.method, m.params, from)
	}
}

// hosted returns the latest call under way that the host made, if any; with only
// set, it returns none where there are several.
func (c *conn) hosted(only bool) *call {
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
func (c *conn) reply(id, result, rpcError []byte) {
	c.mu.Lock()
	delete(c.asked, string(id))
	c.mu.Unlock()
	line := encodeReply(id, result, rpcError)
	c.up.agg.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.up.def.connectTimeout())
		defer cancel()
		if err := c.transport.send(ctx, line, nil); err != nil {
			c.up.logf("an answer to it: %v", err)
		}
	})
}
