package mcpd

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// What a guest may listen to at once.
const (
	maxListens  = 64       // requests of one session
	maxListened = 1024     // resources that one names
	maxFilter   = 64 << 10 // bytes of what one asks for
	maxEarly    = 64       // notifications that one keeps until it is acknowledged
)

// A listen is a subscriptions/listen under way: in revision 2026-07-28 it is what a
// session's notifications and resources/subscribe were before.
type listen struct {
	call    *call
	id      json.RawMessage // of the request
	lists   map[string]bool // the notifications of changed lists that it wants
	uris    [][]byte        // the resources, as JSON
	mu      sync.Mutex      // guards what follows
	begun   bool            // it is acknowledged
	waiting []func()        // what came before
}

// listWords are the notifications of changed lists, by their names in a filter.
var listWords = []struct {
	word string
	list *wire.List
}{
	{"toolsListChanged", wire.Tools}, {"promptsListChanged", wire.Prompts}, {"resourcesListChanged", wire.Resources},
}

const resourceWord = "resourceSubscriptions"

// planListen plans a subscriptions/listen, which lasts until the client cancels it
// or goes away.
func planListen(_ context.Context, c *call) (step, *Error) {
	l, err := newListen(c)
	if err != nil {
		return nil, err
	}
	return func(context.Context) (json.RawMessage, *Error) { // whose time limit is not meant for it
		e := c.session.e
		if !e.addListen(l) {
			return nil, failure(jsonrpc.CodeBusy, "too many subscriptions/listen in a session: %d", maxListens)
		}
		defer e.endListen(l)
		l.acknowledge()
		select {
		case <-c.ctx.Done(): // as most end: the client wants it no more
		case <-c.session.finished:
		}
		return json.RawMessage(`{"_meta":` + string(l.mark()) + `}`), nil
	}, nil
}

// newListen reads what a listen is to be told of.
func newListen(c *call) (*listen, *Error) {
	filter := rawjson.Get(c.message.params.raw, "notifications")
	if len(filter) == 0 || filter[0] != '{' {
		return nil, missing("notifications")
	}
	if len(filter) > maxFilter {
		return nil, failure(jsonrpc.CodeParams, "notifications of %d bytes: at most %d", len(filter), maxFilter)
	}
	l := &listen{call: c, id: c.message.ID, lists: make(map[string]bool)}
	for _, w := range listWords {
		if string(rawjson.Get(filter, w.word)) == "true" {
			l.lists[w.list.Changed] = true
		}
	}
	l.uris = rawjson.Elements(rawjson.Get(filter, resourceWord))
	if len(l.uris) > maxListened {
		return nil, failure(jsonrpc.CodeParams, "%d resources: at most %d", len(l.uris), maxListened)
	}
	return l, nil
}

// acknowledge subscribes to the resources, and tells the client of what it will be
// told.
func (l *listen) acknowledge() {
	var agreed []string
	for _, w := range listWords {
		if l.lists[w.list.Changed] {
			agreed = append(agreed, `"`+w.word+`":true`)
		}
	}
	var uris []string
	for _, uri := range l.uris {
		if l.subscribe(uri) {
			uris = append(uris, string(uri))
		}
	}
	if uris != nil {
		agreed = append(agreed, `"`+resourceWord+`":[`+strings.Join(uris, ",")+`]`)
	}
	l.send("notifications/subscriptions/acknowledged", []byte(`{"notifications":{`+strings.Join(agreed, ",")+`}}`))
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, late := range l.waiting {
		late()
	}
	l.begun, l.waiting = true, nil
}

// subscribe subscribes to a resource, as a client of an older revision does: ledger
// and policy see the same.
func (l *listen) subscribe(uri []byte) bool {
	if !rawjson.IsString(uri) {
		return false
	}
	c := l.call
	p, err := scanParams(append(append([]byte(`{"uri":`), uri...), '}'))
	if err != nil {
		return false
	}
	older := &client{key: c.client.key, capabilities: c.client.capabilities, revision: jsonrpc.Newest}
	sub := &call{
		session: c.session, client: older, level: noLevel, ctx: c.ctx, cancel: c.cancel, process: c.process, who: c.who, listen: l,
		message: message{jsonrpc.Message{ID: c.message.ID, Method: "resources/subscribe"}, p}, version: c.version,
		begun: c.begun, sent: len(p.raw), trace: c.trace,
	}
	_, err = sub.run()
	c.session.account.Read(sub.lent)
	return err == nil
}

// notify sends a notification to the client, once the listen is acknowledged.
func (l *listen) notify(method string, params []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.begun:
		l.send(method, params)
	case len(l.waiting) < maxEarly:
		l.waiting = append(l.waiting, func() { l.send(method, params) })
	}
}

func (l *listen) send(method string, params []byte) {
	l.call.session.notify(method, rawjson.Merge(params, l.mark(), "_meta"))
}

// mark is the _meta of what belongs to the listen.
func (l *listen) mark() []byte {
	return []byte(`{"` + jsonrpc.MetaSubscription + `":` + string(l.id) + `}`)
}

// addListen notes a listen, unless its session has too many.
func (e *Endpoint) addListen(l *listen) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for other := range e.listens {
		if other.call.session == l.call.session {
			n++
		}
	}
	if n >= maxListens {
		return false
	}
	e.listens[l] = struct{}{}
	return true
}

// endListen ends a listen and its subscriptions.
func (e *Endpoint) endListen(l *listen) {
	e.mu.Lock()
	delete(e.listens, l)
	e.mu.Unlock()
	e.subs.drop(l)
}

// listensFor returns the listens of clients of a set of capabilities, or of all, that
// want to be told of a changed list.
func (e *Endpoint) listensFor(key, method string) []*listen {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []*listen
	for l := range e.listens {
		if (key == "" || key == l.call.client.key) && l.lists[method] {
			list = append(list, l)
		}
	}
	return list
}
