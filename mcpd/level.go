package mcpd

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/mcpd/policy"
)

// noLevel is the level of a session that has set none: it gets everything.
const noLevel = -1

// planLevel plans a logging/setLevel: for all servers that log.
func planLevel(_ context.Context, c *call) (step, *Error) {
	name, ok := c.message.params.str(pLevel)
	if !ok {
		return nil, missing("level")
	}
	level := slices.Index(jsonrpc.Levels, name)
	if level < 0 {
		return nil, failure(jsonrpc.CodeParams, "invalid level: %s", name)
	}
	return func(ctx context.Context) (json.RawMessage, *Error) {
		c.session.level.Store(int32(level))
		return json.RawMessage(`{}`), c.fanOutLevel(ctx)
	}, nil
}

// fanOutLevel tells the servers the most talkative level that any session on
// the same connections wants; each session is told only what it wants.
func (c *call) fanOutLevel(ctx context.Context) *Error {
	e, key := c.session.e, c.client.key
	level := c.session.level.Load()
	for _, s := range e.each(func(s *session) bool { return s.is(key) }) {
		if l := s.level.Load(); l != noLevel {
			level = min(level, l)
		}
	}
	aggregator, err := e.child()
	if err != nil {
		return nil
	}
	all, err := aggregator.Servers(ctx)
	if err != nil {
		return c.failed(ctx, err)
	}
	params := c.message.params.with(pLevel, jsonrpc.Levels[level])
	var each sync.WaitGroup
	for _, s := range all {
		if s.Connected && rawjson.Get(s.Capabilities, "logging") != nil {
			each.Go(func() { c.send(ctx, s.Name, c.message.Method, params) })
		}
	}
	each.Wait()
	return nil
}

// logged passes a log message on to the sessions that want its level.
func (e *Endpoint) logged(n wire.Notification) {
	level := int32(slices.Index(jsonrpc.Levels, rawjson.GetString(n.Params, "level")))
	for _, s := range e.recipients(n) {
		if want := s.wants(n); level >= want || level < 0 && want < int32(len(jsonrpc.Levels)) {
			if params := e.told(tellsLog, func() *policy.Event { return s.toldBy(n) }, n.Params); params != nil {
				s.notify(n.Method, params)
			}
		}
	}
}

// wants is the lowest level of the log messages that the session gets of what n
// belongs to.
func (s *session) wants(n wire.Notification) int32 {
	c := callOf(n.Owner)
	switch {
	case c == nil || !c.stateless():
		return s.level.Load()
	case c.level == noLevel:
		return int32(len(jsonrpc.Levels)) // none
	}
	return c.level
}

// toldBy is the event of what a server tells the session: of the call that it
// belongs to, or of the server alone where its protocol does not say which.
func (s *session) toldBy(n wire.Notification) *policy.Event {
	if c := callOf(n.Owner); c != nil {
		return c.question(nil)
	}
	r := s.e.toldBy(n)
	r.Session, r.Principal, r.Process = s.id, s.principal, s.process
	return r
}

func (e *Endpoint) toldBy(n wire.Notification) *policy.Event {
	return &policy.Event{VM: e.cfg.VM(), Profile: e.cfg.Profile(), Server: n.Server, Method: n.Method, Known: true}
}
