package mcpd

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// What a guest may listen to at once.
const (
	maxListens  = 64       // requests of one session
	maxListened = 1024     // resources and tasks that one names
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
	ids     [][]byte        // the tasks, as JSON
	news    chan struct{}   // has one token when there is news of tasks
	mu      sync.Mutex      // guards what follows
	begun   bool            // it is acknowledged
	waiting []func()        // what came before
	tasks   map[string]int  // those that it is told of, and how often to ask for the news of each
}

// listWords are the notifications of changed lists, by their names in a filter.
var listWords = []struct {
	word string
	list *wire.List
}{
	{"toolsListChanged", wire.Tools}, {"promptsListChanged", wire.Prompts}, {"resourcesListChanged", wire.Resources},
}

const (
	resourceWord = "resourceSubscriptions"
	taskWord     = "taskIds"
)

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
		for {
			select {
			case <-l.news:
				l.tellTasks()
				continue
			case <-c.ctx.Done(): // as most end: the client wants it no more
			case <-c.session.finished:
			}
			return json.RawMessage(`{"_meta":` + string(l.mark()) + `}`), nil
		}
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
	l := &listen{call: c, id: c.message.ID, lists: make(map[string]bool), news: make(chan struct{}, 1), tasks: make(map[string]int)}
	for _, w := range listWords {
		if string(rawjson.Get(filter, w.word)) == "true" {
			l.lists[w.list.Changed] = true
		}
	}
	l.uris, l.ids = rawjson.Elements(rawjson.Get(filter, resourceWord)), rawjson.Elements(rawjson.Get(filter, taskWord))
	if n := len(l.uris) + len(l.ids); n > maxListened {
		return nil, failure(jsonrpc.CodeParams, "%d resources and tasks: at most %d", n, maxListened)
	}
	if l.ids != nil {
		return l, c.needsTasks()
	}
	return l, nil
}

// acknowledge subscribes to the resources and tasks, and tells the client of what it
// will be told.
func (l *listen) acknowledge() {
	var agreed []string
	for _, w := range listWords {
		if l.lists[w.list.Changed] {
			agreed = append(agreed, `"`+w.word+`":true`)
		}
	}
	some := func(word string, all [][]byte, begin func(value []byte) bool) {
		all = slices.DeleteFunc(all, func(value []byte) bool { return !rawjson.IsString(value) || !begin(value) })
		if len(all) > 0 {
			agreed = append(agreed, `"`+word+`":[`+string(bytes.Join(all, []byte(",")))+`]`)
		}
	}
	some(resourceWord, l.uris, l.subscribe)
	some(taskWord, l.ids, func(id []byte) bool { return l.watch(rawjson.String(id)) })
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
	c := l.call.client
	older := &client{key: c.key, capabilities: c.capabilities, revision: jsonrpc.Newest}
	_, err := l.request(older, "resources/subscribe", append(append([]byte(`{"uri":`), uri...), '}'))
	return err == nil
}

// request makes a request of its own, as the client would.
func (l *listen) request(as *client, method string, params []byte) (json.RawMessage, *Error) {
	p, err := scanParams(params)
	if err != nil {
		return nil, err
	}
	c := l.call
	sub := &call{
		session: c.session, client: as, level: noLevel, ctx: c.ctx, cancel: c.cancel, process: c.process, who: c.who, listen: l,
		message: message{jsonrpc.Message{ID: c.message.ID, Method: method}, p}, version: c.version,
		begun: time.Now(), sent: len(p.raw), trace: c.trace,
	}
	result, err := sub.run()
	c.session.account.Read(sub.lent)
	return result, err
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
