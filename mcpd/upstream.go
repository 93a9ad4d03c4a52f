package mcpd

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/mcpd/policy"
)

// notified passes a server's notification on to the sessions it is for. The
// aggregator's reader calls it: it never blocks.
func (e *Endpoint) notified(n wire.Notification) {
	var why *Error
	if n.Params, why = e.hide(n.Params); why != nil {
		return
	}
	switch n.Method {
	case wire.Lost:
		if !e.cfg.Stopped(n.Server) {
			e.died(n)
		}
	case wire.StateChanged:
		e.cfg.Changed()
	case wire.Tools.Changed, wire.Resources.Changed, wire.Prompts.Changed:
		e.catalogs.each(n.Client, func(c catalog) { c.forget(n.Method) })
		e.broadcast(n.Client, n.Method, nil)
		e.refresh()
	case "notifications/resources/updated":
		e.updated(n)
	case "notifications/message":
		e.logged(n)
	case "notifications/tasks/status":
		e.taskChanged(n)
	case "notifications/tasks":
		e.taskNews(n)
	default:
		method, why := e.hide(rawjson.Quote(n.Method))
		if n.Method = rawjson.String(method); why != nil || !strings.HasPrefix(n.Method, "notifications/") {
			return // a server may write there what it likes
		}
		for _, s := range e.recipients(n) {
			if e.mayTell(func() *policy.Event { return s.toldBy(n) }, n.Params, n.Method) {
				s.notify(n.Method, n.Params)
			}
		}
	}
}

// A death is what was told last of a server that died.
type death struct {
	text, client string
	at           time.Time
}

// died tells that a server died: once, where those of all clients end with the sandbox
// that they share.
func (e *Endpoint) died(n wire.Notification) {
	now := &death{e.redact(fmt.Sprintf("%s: %s", n.Server, rawjson.GetString(n.Params, "reason"))), n.Client, time.Now()}
	was := e.death.Swap(now)
	if e.rules.Load().servers[n.Server].Sandbox != "" && was != nil && was.text == now.text && was.client != now.client && now.at.Sub(was.at) < time.Second {
		return
	}
	e.cfg.Trouble("server.died", now.text)
}

// recipients returns the session that the call belongs to which a
// notification is about. If nobody knows which that is, these are the sessions
// with a call under way to the server, or, where none is, all that share the
// connection.
func (e *Endpoint) recipients(n wire.Notification) []*session {
	if c := callOf(n.Owner); c != nil {
		return []*session{c.session}
	}
	sharing := e.each(func(s *session) bool { return s.is(n.Client) })
	var waiting []*session
	for _, s := range sharing {
		if s.latest(func(c *call) bool { return c.target() == n.Server }) != nil {
			waiting = append(waiting, s)
		}
	}
	if waiting != nil {
		return waiting
	}
	return sharing
}

// broadcast notifies the sessions that are initialized, and those that listen: of
// one set of client capabilities, or all.
func (e *Endpoint) broadcast(key, method string, params []byte) {
	for _, s := range e.each(func(s *session) bool {
		c := s.client.Load()
		return c.ready.Load() && (key == "" || c.key == key)
	}) {
		s.notify(method, params)
	}
	for _, l := range e.listensFor(key, method) {
		l.notify(method, params)
	}
}

// Refresh has the lists of all servers be fetched anew, which has those be connected
// that could not be.
func (e *Endpoint) Refresh() { e.changed("") }

// changed makes all lists be fetched anew and tells the sessions.
func (e *Endpoint) changed(key string) {
	e.catalogs.each(key, func(c catalog) { c.forget("") })
	for _, method := range []string{wire.Tools.Changed, wire.Resources.Changed, wire.Prompts.Changed} {
		e.broadcast(key, method, nil)
	}
	e.refresh()
}

// refresh fetches, in the background, the lists that the tree shows.
func (e *Endpoint) refresh() {
	if e.aggregator.Load() == nil || e.refreshing.Swap(true) {
		return
	}
	e.background(func(ctx context.Context) {
		e.fetching.Lock() // until then this one does for all that changes
		defer e.fetching.Unlock()
		e.refreshing.Store(false) // what changes from now on is for the next
		for _, s := range e.catalogs.of("") {
			s.get(ctx, e)
		}
	})
}

// updated tells the sessions that subscribed to a resource, each by the URI
// it knows.
func (e *Endpoint) updated(n wire.Notification) {
	uri := rawjson.GetString(n.Params, "uri")
	if !e.mayTell(func() *policy.Event { return e.toldBy(n) }, n.Params) {
		return
	}
	for _, s := range e.subs.about(n.Client, n.Server, uri) {
		if params, err := rawjson.SetString(n.Params, s.uri, "uri"); err == nil {
			s.notify(n.Method, params)
		}
	}
}

// AggregatorDied is the trouble of an aggregator that ended or cannot be started.
const AggregatorDied = "aggregator.died"

func (e *Endpoint) down(err error) {
	text := e.redact(fs.Text(err))
	if was := e.trouble.Swap(&text); was == nil || *was != text { // else it is told already
		e.cfg.Log.Warn("aggregator is down", "vm", e.cfg.VM(), "err", err)
		e.cfg.Trouble(AggregatorDied, text)
	}
	e.catalogs.empty()
	e.cfg.Changed()
}

func (e *Endpoint) up() {
	e.trouble.Store(nil)
	e.cfg.Log.Debug("aggregator is up", "vm", e.cfg.VM())
	e.changed("")
	e.cfg.Changed()
}

// toServers passes a session's notification to every server.
func (e *Endpoint) toServers(s *session, method string, params json.RawMessage) {
	key := s.client.Load().key
	for _, server := range e.rules.Load().list {
		if server.Enabled {
			e.notifyServer(key, server.Name, method, params)
		}
	}
}

// maxTelling is how many notifications may be on their way to servers, and
// maxTold how long each. More come only from a guest that floods; they are lost.
const (
	maxTelling = 256
	maxTold    = 64 << 10
)

// notifyServer sends a server a notification, without waiting for it.
func (e *Endpoint) notifyServer(key, server, method string, params json.RawMessage) {
	if len(params) > maxTold {
		return
	}
	if e.telling.Add(1) > maxTelling {
		e.telling.Add(-1)
		return
	}
	e.background(func(ctx context.Context) {
		defer e.telling.Add(-1)
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		if c, err := e.child(); err == nil {
			c.Notify(ctx, key, server, method, params)
		}
	})
}
