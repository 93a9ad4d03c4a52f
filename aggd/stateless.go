package aggd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// stamp returns the params of a request of 2026-07-28, which say what its client is.
func (u *upstream) stamp(params json.RawMessage) []byte {
	own := fmt.Appendf(nil, `{%q:%q,%q:%s,%q:%s}`,
		jsonrpc.MetaRevision, jsonrpc.Stateless, jsonrpc.MetaClientInfo, clientInfo, jsonrpc.MetaCapabilities, u.offer())
	u.mu.Lock()
	level := rawjson.Get(u.sticky.level, "level")
	u.mu.Unlock()
	if level != nil && rawjson.Get(params, "_meta", jsonrpc.MetaLevel) == nil {
		own = fmt.Appendf(own[:len(own)-1], `,%q:%s}`, jsonrpc.MetaLevel, level)
	}
	return rawjson.Merge(params, own, "_meta")
}

// emulate answers what the host asks that 2026-07-28 has no request for, and says
// whether it did.
func (u *upstream) emulate(ctx context.Context, c *conn, method string, params json.RawMessage) (o outcome, done bool) {
	switch method {
	case "ping":
		if o = c.call(ctx, nil, u.client, methodDiscover, nil); o.failure() == nil {
			o = outcome{result: []byte("{}")}
		}
		return o, true
	case "logging/setLevel":
		return outcome{result: []byte("{}")}, true // said with each request from now on
	case "resources/subscribe":
		return c.subscribe(ctx, params), true
	case "resources/unsubscribe":
		c.unlisten(rawjson.GetString(params, "uri"))
		return outcome{result: []byte("{}")}, true
	}
	return outcome{}, false
}

// subscribe has the server tell of a resource as well.
func (c *conn) subscribe(ctx context.Context, params json.RawMessage) outcome {
	if err := c.listen(ctx, rawjson.GetString(params, "uri")); err != nil {
		return outcome{err: err}
	}
	return outcome{result: []byte("{}")}
}

// A listening is what a connection listens to: lists, which have no name, and
// resources by their URIs, each by a subscriptions/listen of its own, since there are
// servers that forget one when another ends.
type listening struct {
	mu   sync.Mutex // guards the map
	open map[string]context.CancelFunc
}

// filter is what a listen asks for; nothing if the server offers none of it.
func (u *upstream) filter(uri string) []byte {
	u.mu.Lock()
	defer u.mu.Unlock()
	offers := func(capability, what string) bool {
		return string(rawjson.Get(u.session.capabilities, capability, what)) == "true"
	}
	if uri != "" {
		if !offers("resources", "subscribe") {
			return nil
		}
		return append(rawjson.AppendString([]byte(`{"resourceSubscriptions":[`), uri), "]}"...)
	}
	var words []string
	for _, l := range wire.Lists {
		if l != wire.Templates && offers(l.Capability, "listChanged") {
			words = append(words, `"`+l.Capability+`ListChanged":true`)
		}
	}
	if words == nil {
		return nil
	}
	return []byte("{" + strings.Join(words, ",") + "}")
}

// listen has the server tell of changed lists, or of a resource. What the server ends
// later is begun anew, until nobody wants it any more.
func (c *conn) listen(ctx context.Context, uri string) error {
	filter := c.up.filter(uri)
	switch {
	case filter == nil && uri == "":
		return nil
	case filter == nil:
		return jsonrpc.Errorf(jsonrpc.CodeMethod, "the server tells of no resources")
	}
	open, stop := context.WithCancel(context.Background())
	if err := c.listening.add(uri, stop); err != nil {
		stop()
		return err
	}
	q := &call{client: c.up.client, acknowledged: make(chan json.RawMessage, 1)}
	run := func(q *call) error {
		return c.run(open, q, "subscriptions/listen", slices.Concat([]byte(`{"notifications":`), filter, []byte("}"))).failure()
	}
	ended := make(chan error, 1)
	c.up.agg.tasks.Go(func() {
		ended <- run(q)
		for pause(listenPause, c.over, open.Done()) {
			again := &call{client: q.client, acknowledged: make(chan json.RawMessage, 1)}
			if err := run(again); err != nil && open.Err() == nil && c.complaints.Allow() {
				c.up.logf("subscriptions/listen: %v", err)
			}
		}
	})
	var err error
	select {
	case agreed := <-q.acknowledged:
		if uri == "" || len(rawjson.Elements(rawjson.Get(agreed, "resourceSubscriptions"))) > 0 {
			return nil
		}
		err = jsonrpc.Errorf(jsonrpc.CodeParams, "the server does not tell of %s", uri)
	case err = <-ended:
		if err == nil {
			err = errors.New("the server told of nothing")
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	c.unlisten(uri)
	return err
}

// add notes what ends a listen, in the place of one for the same.
func (l *listening) add(uri string, stop context.CancelFunc) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if was := l.open[uri]; was != nil {
		was()
	} else if len(l.open) >= maxListening {
		return fmt.Errorf("more than %d resources of one server to be told of", maxListening)
	}
	l.open[uri] = stop
	return nil
}

func (c *conn) unlisten(uri string) {
	l := &c.listening
	l.mu.Lock()
	defer l.mu.Unlock()
	if stop := l.open[uri]; stop != nil {
		stop()
		delete(l.open, uri)
	}
}

// beginListening begins to listen on a new connection, to what was listened to on
// the last, before its lists are fetched where the server is quick.
func (u *upstream) beginListening(ctx context.Context, c *conn) {
	u.mu.Lock()
	uris := append(slices.Collect(maps.Keys(u.sticky.subscriptions)), "")
	u.mu.Unlock()
	begun := make(chan struct{})
	u.agg.tasks.Go(func() {
		defer close(begun)
		limit, cancel := context.WithTimeout(context.Background(), u.def.connectTimeout())
		defer cancel()
		var all sync.WaitGroup
		for _, uri := range uris {
			all.Go(func() {
				if err := c.listen(limit, uri); err != nil && !c.isOver() {
					u.logf("subscriptions/listen: %v", err)
				}
			})
		}
		all.Wait()
	})
	pause(listenBegin, begun, ctx.Done())
}

const (
	listenPause  = 5 * time.Second // before it is asked for again
	listenBegin  = time.Second     // that a new connection waits for it
	maxListening = 256             // of one connection
)

// unmark returns the params of a notification without what tells for which listen
// it is.
func unmark(params json.RawMessage) json.RawMessage {
	meta := rawjson.Get(params, "_meta")
	if meta == nil {
		return params
	}
	rest := rawjson.Delete(meta, jsonrpc.MetaSubscription)
	if len(rawjson.Inside(rest)) == 0 {
		return rawjson.Delete(params, "_meta")
	}
	return rawjson.Set(params, rest, "_meta")
}
