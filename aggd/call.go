package aggd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// call makes a request of the server. A session that the server has forgotten,
// and a connection that was gone before the request was sent, cost nothing but
// the time to make another.
func (u *upstream) call(ctx context.Context, request json.RawMessage, client, method string, params json.RawMessage) outcome {
	ctx, cancel := context.WithTimeoutCause(ctx, u.def.callTimeout(), u.timedOut)
	defer cancel()
	o := u.attempt(ctx, request, client, method, params)
	if retryable(o.err) {
		first := o
		if o = u.attempt(ctx, request, client, method, params); first.sent && !o.sent {
			o.sent, o.err = true, fmt.Errorf("%w: %w", first.err, o.err)
		}
	}
	return o
}

// retryable reports whether a request that failed with err cannot have had an effect.
func retryable(err error) bool { return unusable(err) || errors.Is(err, errOver) }

// unusable reports whether a connection that failed with err is of no more use.
func unusable(err error) bool { return errors.Is(err, errSession) || errors.Is(err, errNotSent) }

func (u *upstream) attempt(ctx context.Context, request json.RawMessage, client, method string, params json.RawMessage) outcome {
	c, err := u.acquire(ctx)
	if err != nil {
		return outcome{err: err}
	}
	defer u.release()
	if !c.stateless.Load() {
		params = u.level(ctx, c, params)
	} else if o, done := u.emulate(ctx, c, method, params); done {
		return u.noted(method, params, o)
	}
	o := c.call(ctx, request, client, method, params)
	if o.stateless && method == "tools/call" && mismatched(o) { // the tool may have changed
		u.invalidate(wire.Tools)
		u.fetch(ctx, c, wire.Tools)
		o = c.call(ctx, request, client, method, params)
	}
	o = c.checked(ctx, o)
	u.discard(c, o.err)
	return u.noted(method, params, o)
}

// noted remembers what a request with that outcome has for a lasting effect.
func (u *upstream) noted(method string, params json.RawMessage, o outcome) outcome {
	if o.result != nil {
		u.remember(method, params)
	}
	return o
}

// level has a server of an older revision send the log messages that a request of
// 2026-07-28 wants, and returns the params without that.
func (u *upstream) level(ctx context.Context, c *conn, params json.RawMessage) json.RawMessage {
	meta := rawjson.Get(params, "_meta")
	want := rawjson.Get(meta, jsonrpc.MetaLevel)
	if want == nil {
		return params
	}
	u.mu.Lock()
	has, logs := rawjson.GetString(u.sticky.level, "level"), u.session.offers("logging")
	u.mu.Unlock()
	if level := slices.Index(jsonrpc.Levels, rawjson.String(want)); logs && level >= 0 && (has == "" || level < slices.Index(jsonrpc.Levels, has)) {
		const method = "logging/setLevel"
		set := slices.Concat([]byte(`{"level":`), want, []byte("}"))
		u.noted(method, set, c.call(ctx, nil, u.client, method, set))
	}
	return rawjson.Set(params, rawjson.Delete(meta, jsonrpc.MetaLevel), "_meta")
}

// notify sends a notification to the server.
func (u *upstream) notify(ctx context.Context, method string, params json.RawMessage) error {
	c, err := u.acquire(ctx)
	if err != nil {
		return err
	}
	defer u.release()
	err = c.notify(ctx, method, params)
	u.discard(c, err)
	return err
}

// discard takes a connection out of use if err says that it is unusable.
func (u *upstream) discard(c *conn, err error) {
	if !unusable(err) {
		return
	}
	u.mu.Lock()
	if u.conn == c {
		u.setLocked(wire.Starting, nil)
	}
	u.mu.Unlock()
	c.awaitOthers()
	c.fail(err)
}

// sticky is what clients asked of the server that lasts longer than one
// connection: it is asked again on the next one.
type sticky struct {
	level         json.RawMessage            // the params of the last logging/setLevel
	subscriptions map[string]json.RawMessage // the params of each resources/subscribe, by URI
}

// maxSubscriptions bounds what a guest can make us remember.
const maxSubscriptions = 1024

// remember notes a request that succeeded, if it has a lasting effect.
func (u *upstream) remember(method string, params json.RawMessage) {
	switch method {
	case "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
	default:
		return
	}
	uri := rawjson.GetString(params, "uri")
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case method == "logging/setLevel":
		u.sticky.level = params
	case method == "resources/unsubscribe":
		delete(u.sticky.subscriptions, uri)
	case len(u.sticky.subscriptions) < maxSubscriptions:
		u.sticky.subscriptions[uri] = params
	}
}

// replay asks a new connection for what lasts of what the last one was asked.
func (u *upstream) replay(ctx context.Context, c *conn) {
	u.mu.Lock()
	level := u.sticky.level
	subscriptions := slices.Collect(maps.Values(u.sticky.subscriptions))
	u.mu.Unlock()
	if level != nil {
		c.call(ctx, nil, u.client, "logging/setLevel", level)
	}
	for _, params := range subscriptions {
		c.call(ctx, nil, u.client, "resources/subscribe", params)
	}
}
