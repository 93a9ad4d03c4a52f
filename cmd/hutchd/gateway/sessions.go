package gateway

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"hutch/fs"
	"hutch/relay/agent"
)

// Sessions returns the names of the sessions.
func (g *Gateway) Sessions() []string {
	g.sessionsMu.Lock()
	defer g.sessionsMu.Unlock()
	return slices.Sorted(maps.Keys(g.sessions))
}

// Session returns the session called name.
func (g *Gateway) Session(name string) (*Session, error) {
	g.sessionsMu.Lock()
	defer g.sessionsMu.Unlock()
	if s := g.sessions[name]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("%w: MCP session %s", fs.ErrNotExist, name)
}

// MakeSession makes a session called name, in which the principal asks.
func (g *Gateway) MakeSession(name, principal string) error {
	g.sessionsMu.Lock()
	defer g.sessionsMu.Unlock()
	_, err := g.makeSession(name, principal, false)
	return err
}

// MakeAnonymousSession makes a session with a number for a name, which goes when
// the last of its holders has let go of it.
func (g *Gateway) MakeAnonymousSession(principal string) (*Session, error) {
	g.sessionsMu.Lock()
	defer g.sessionsMu.Unlock()
	for {
		s, err := g.makeSession(strconv.FormatUint(g.lastSession.Add(1), 10), principal, true)
		if !fs.Is(err, fs.ErrExist) {
			return s, err
		}
	}
}

// makeSession makes a session. It is called with sessionsMu held.
func (g *Gateway) makeSession(name, principal string, anonymous bool) (*Session, error) {
	switch {
	case g.sessions[name] != nil:
		return nil, fmt.Errorf("%w: MCP session %s", fs.ErrExist, name)
	case len(g.sessions) >= maxTreeSessions:
		return nil, fmt.Errorf("%w: %s has %d MCP sessions, and cannot have more: remove one", fs.ErrNoSpace, g, maxTreeSessions)
	}
	s := &Session{
		g: g, Held: Held{Keep: g.cfg.Hold}, ID: g.service.NextID(), Name: name, principal: principal, done: make(chan struct{}),
		turn: make(chan struct{}, 1), joined: make(chan struct{}, 1), lines: make(chan line), eof: make(chan struct{}), Out: agent.NewSpool(maxOut),
	}
	if anonymous {
		s.Unheld = s.drop
	}
	s.ctx, s.cancel = context.WithCancel(g.ctx)
	if !g.tasks.Begin(s.run) {
		s.cancel()
		return nil, g.gone()
	}
	g.sessions[name] = s
	return s, nil
}

// drop takes the session out of the table and has it end.
func (s *Session) drop() {
	s.g.sessionsMu.Lock()
	if s.g.sessions[s.Name] == s {
		delete(s.g.sessions, s.Name)
	}
	s.g.sessionsMu.Unlock()
	s.cancel()
}

// DropSession removes a session; calls under way are given up.
func (g *Gateway) DropSession(ctx context.Context, name string) error {
	s, err := g.Session(name)
	if err != nil {
		return err
	}
	s.drop()
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
