package mcpd

import (
	"context"
	"strings"
	"sync"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// subscriptions are the resources that sessions want news of.
type subscriptions struct {
	e *Endpoint

	mu     sync.Mutex                      // guards the map, and those in it
	topics map[topic]map[subscriber]string // the URI as the subscriber knows it
}

// A subscriber is who is told of an updated resource: a session or a listen.
type subscriber interface {
	notify(method string, params []byte)
}

// subscriber returns who is told of what the call subscribes to.
func (c *call) subscriber() subscriber {
	if c.listen != nil {
		return c.listen
	}
	return c.session
}

// A topic is a resource of a server, on the connection for one set of
// client capabilities.
type topic struct{ key, server, uri string }

// What the sessions of a guest may want news of.
const (
	maxTopics = 4096    // resources
	maxURI    = 4 << 10 // bytes of the name of one
)

// add reports whether there is room for it, and whether the subscriber had none to
// the topic.
func (s *subscriptions) add(t topic, who subscriber, uri string) (fresh, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.topics[t] == nil {
		if len(s.topics) >= maxTopics {
			return false, false
		}
		s.topics[t] = make(map[subscriber]string)
	}
	_, had := s.topics[t][who]
	s.topics[t][who] = uri
	return !had, true
}

// remove reports whether nobody is left.
func (s *subscriptions) remove(t topic, who subscriber) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.topics[t], who)
	if len(s.topics[t]) > 0 {
		return false
	}
	delete(s.topics, t)
	return true
}

// drop ends all subscriptions of a session or listen that has ended.
func (s *subscriptions) drop(who subscriber) {
	s.mu.Lock()
	var done []topic
	for t, those := range s.topics {
		if _, ok := those[who]; !ok {
			continue
		}
		if delete(those, who); len(those) == 0 {
			delete(s.topics, t)
			done = append(done, t)
		}
	}
	s.mu.Unlock()
	if len(done) > 0 {
		s.e.unwanted(done...)
	}
}

// wanted reports whether there is a subscriber.
func (s *subscriptions) wanted(t topic) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.topics[t] != nil
}

// unwanted has the servers of topics tell no more of those that nobody wants.
func (e *Endpoint) unwanted(topics ...topic) {
	e.background(func(ctx context.Context) {
		for _, t := range topics {
			if !e.subs.wanted(t) {
				e.tell(ctx, t, "resources/unsubscribe")
				e.restore(t)
			}
		}
	})
}

// restore subscribes anew to a topic that is wanted after an unsubscribe, which may
// have come to the server after the subscribe of who wants it.
func (e *Endpoint) restore(t topic) {
	if e.subs.wanted(t) {
		e.background(func(ctx context.Context) { e.tell(ctx, t, "resources/subscribe") })
	}
}

// tell makes a request about a topic on the endpoint's own behalf.
func (e *Endpoint) tell(ctx context.Context, t topic, method string) (err error) {
	defer func() {
		if err != nil {
			e.cfg.Log.Debug(method, "vm", e.cfg.VM(), "server", t.server, "err", err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := e.child()
	if err != nil {
		return err
	}
	params := append(rawjson.AppendString([]byte(`{"uri":`), t.uri), '}')
	answer, err := c.Call(ctx, wire.Call{Client: t.key, Server: t.server, Method: method, Params: params})
	if err == nil && answer.Error != nil {
		err = jsonrpc.Received(answer.Error)
	}
	return err
}

// A subscription is a subscriber, and the URI that it is to be told of.
type subscription struct {
	subscriber
	uri string
}

// about returns who is to be told that a resource was updated. It may be
// one below the one that was subscribed to.
func (s *subscriptions) about(key, server, uri string) []subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []subscription
	for t, those := range s.topics {
		if t.key != key || t.server != server || !within(t.uri, uri) {
			continue
		}
		for who, known := range those {
			list = append(list, subscription{who, known + uri[len(t.uri):]})
		}
	}
	return list
}

// within reports whether uri is that of a resource or of one below it.
func within(resource, uri string) bool {
	rest, ok := strings.CutPrefix(uri, resource)
	return ok && (rest == "" || strings.HasSuffix(resource, "/") || strings.Contains("/?#", rest[:1]))
}
