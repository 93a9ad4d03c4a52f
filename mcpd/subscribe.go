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

func (s *subscriptions) add(t topic, who subscriber, uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.topics[t] == nil {
		if len(s.topics) >= maxTopics {
			return false
		}
		s.topics[t] = make(map[subscriber]string)
	}
	s.topics[t][who] = uri
	return true
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
	if len(done) == 0 {
		return
	}
	s.e.background(func(ctx context.Context) {
		for _, t := range done {
			if err := s.e.tell(ctx, t, "resources/unsubscribe"); err != nil {
				s.e.cfg.Log.Debug("resources/unsubscribe", "vm", s.e.cfg.VM(), "server", t.server, "err", err)
			}
		}
	})
}

// tell makes a request about a topic on the endpoint's own behalf.
func (e *Endpoint) tell(ctx context.Context, t topic, method string) error {
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
		if t.key != key || t.server != server || !strings.HasPrefix(uri, t.uri) {
			continue
		}
		for who, known := range those {
			list = append(list, subscription{who, known + uri[len(t.uri):]})
		}
	}
	return list
}
