package aggd

import (
	"cmp"
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
		c.endListen(rawjson.GetString(params, "uri"))
		return outcome{result: []byte("{}")}, true
	}
	return outcome{}, false
}

// subscribe has the server tell of a resource as well.
func (c *conn) subscribe(ctx context.Context, params json.RawMessage) outcome {
	if err := c.beginListen(ctx, rawjson.GetString(params, "uri")); err != nil {
		return outcome{err: err, sent: true}
	}
	return outcome{result: []byte("{}")}
}

// listens are the subscriptions/listen under way on a connection: one for changed
// lists, by the name "", and one for each resource or task, by its URI, since there are servers
// that forget one resource when they are told that another is not wanted any more.
type listens struct {
	mu    sync.Mutex // guards the map
	byURI map[string]*listen
}

// A listen is one subscriptions/listen.
type listen struct {
	ctx    context.Context // ends when nobody wants it any more
	end    context.CancelFunc
	agreed chan struct{} // closed when the server has agreed, or err says why not
	err    error
	wanted int // by how many who have not given up; listens.mu guards it
}

// filter is what a listen asks for; nothing if the server says that it offers none of it.
func (u *upstream) filter(uri string) []byte {
	u.mu.Lock()
	defer u.mu.Unlock()
	offers := func(capability, what string) bool {
		return string(rawjson.Get(u.session.capabilities, capability, what)) == "true"
	}
	if id, ok := strings.CutPrefix(uri, wire.TaskScheme); ok {
		return append(rawjson.AppendString([]byte(`{"taskIds":[`), id), "]}"...)
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

// beginListen has the server tell of changed lists, or of a resource, and waits until
// it agrees. What the server ends later is begun anew, until nobody wants it any more.
func (c *conn) beginListen(ctx context.Context, uri string) error {
	filter := c.up.filter(uri)
	switch {
	case filter == nil && uri == "":
		return nil
	case filter == nil:
		return jsonrpc.Errorf(jsonrpc.CodeMethod, "the server tells of no resources")
	}
	l, err := c.joinListen(uri, filter)
	if err != nil {
		return err
	}
	select {
	case <-l.agreed:
		return l.err
	case <-ctx.Done():
		c.listens.giveUp(uri, l)
		return context.Cause(ctx)
	}
}

// joinListen returns the listen for a URI, which one more wants, and begins it if there
// is none.
func (c *conn) joinListen(uri string, filter []byte) (*listen, error) {
	c.listens.mu.Lock()
	defer c.listens.mu.Unlock()
	if l := c.listens.byURI[uri]; l != nil {
		l.wanted++
		return l, nil
	}
	if len(c.listens.byURI) >= maxListens {
		return nil, fmt.Errorf("more than %d resources of one server to be told of", maxListens)
	}
	l := &listen{agreed: make(chan struct{}), wanted: 1}
	l.ctx, l.end = context.WithCancel(context.Background())
	c.listens.byURI[uri] = l
	c.up.agg.tasks.Go(func() { c.keepListen(l, uri, slices.Concat([]byte(`{"notifications":`), filter, []byte("}"))) })
	return l, nil
}

// keepListen asks for a listen, and again and again once the server has agreed to it.
func (c *conn) keepListen(l *listen, uri string, params []byte) {
	defer l.end()
	ask := func() (agreed chan json.RawMessage, ended chan error) {
		q := &call{client: c.up.client, acknowledged: make(chan json.RawMessage, 1)}
		ended = make(chan error, 1)
		c.up.agg.tasks.Go(func() { ended <- c.run(l.ctx, q, "subscriptions/listen", params).failure() })
		return q.acknowledged, ended
	}
	agreed, ended := ask()
	select {
	case what := <-agreed:
		if uri != "" && len(rawjson.Elements(rawjson.Get(what, "resourceSubscriptions")))+len(rawjson.Elements(rawjson.Get(what, "taskIds"))) == 0 {
			l.err = jsonrpc.Errorf(jsonrpc.CodeParams, "the server does not tell of %s", uri)
		}
	case err := <-ended:
		l.err = cmp.Or(err, errors.New("the server told of nothing"))
	}
	if l.err != nil {
		c.listens.remove(uri, l)
	}
	close(l.agreed)
	for l.err == nil {
		if err := <-ended; err != nil && l.ctx.Err() == nil && c.complaints.Allow() {
			c.up.logf("subscriptions/listen: %v", err)
		}
		if !pause(listenPause, c.over, l.ctx.Done()) {
			return
		}
		_, ended = ask()
	}
}

// remove ends a listen, unless another has its place.
func (ls *listens) remove(uri string, l *listen) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.drop(uri, l)
}

// giveUp has one less want a listen, which ends with the last of them.
func (ls *listens) giveUp(uri string, l *listen) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.wanted--; l.wanted == 0 {
		ls.drop(uri, l)
	}
}

// drop is remove; mu is held.
func (ls *listens) drop(uri string, l *listen) {
	l.end()
	if ls.byURI[uri] == l {
		delete(ls.byURI, uri)
	}
}

// endListen ends the listen for a URI that nobody wants any more.
func (c *conn) endListen(uri string) {
	c.listens.mu.Lock()
	defer c.listens.mu.Unlock()
	if l := c.listens.byURI[uri]; l != nil {
		l.end()
		delete(c.listens.byURI, uri)
	}
}

// resumeListens begins to listen on a new connection, to what was listened to on
// the last, before its lists are fetched where the server is quick.
func (u *upstream) resumeListens(ctx context.Context, c *conn) {
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
				if err := c.beginListen(limit, uri); err != nil && !c.isOver() {
					u.logf("subscriptions/listen: %v", err)
				}
			})
		}
		all.Wait()
	})
	pause(listenBegin, begun, ctx.Done())
}

const (
	listenPause = 5 * time.Second // before it is asked for again
	listenBegin = time.Second     // that a new connection waits for it
	maxListens  = 256             // of one connection
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
