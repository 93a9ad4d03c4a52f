package sandbox

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
func (v *Sandbox) Sessions() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Sorted(maps.Keys(v.sessions))
}

// Session returns the session called name.
func (v *Sandbox) Session(name string) (*Session, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s := v.sessions[name]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("%w: MCP session %s", fs.ErrNotExist, name)
}

// MakeSession makes a session called name, in which the principal asks.
func (v *Sandbox) MakeSession(name, principal string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, err := v.makeSession(name, principal, false)
	return err
}

// MakeAnonymousSession makes a session with a number for a name, which goes when
// the last of its holders has let go of it.
func (v *Sandbox) MakeAnonymousSession(principal string) (*Session, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for {
		s, err := v.makeSession(strconv.FormatUint(v.lastSession.Add(1), 10), principal, true)
		if !fs.Is(err, fs.ErrExist) {
			return s, err
		}
	}
}

// makeSession makes a session. It is called with mu held.
func (v *Sandbox) makeSession(name, principal string, anonymous bool) (*Session, error) {
	switch {
	case v.sessions[name] != nil:
		return nil, fmt.Errorf("%w: MCP session %s", fs.ErrExist, name)
	case len(v.sessions) >= maxTreeSessions:
		return nil, fmt.Errorf("%w: vm %q has %d MCP sessions, and cannot have more: remove one", fs.ErrNoSpace, v.Name(), maxTreeSessions)
	}
	s := &Session{
		held: held{vm: v}, ID: v.service.NextID(), Name: name, principal: principal, done: make(chan struct{}),
		turn: make(chan struct{}, 1), joined: make(chan struct{}, 1), lines: make(chan line), eof: make(chan struct{}), Out: agent.NewSpool(maxOut),
	}
	if anonymous {
		s.unheld = s.drop
	}
	s.ctx, s.cancel = context.WithCancel(v.ctx)
	if !v.tasks.begin(s.run) {
		s.cancel()
		return nil, fmt.Errorf("%w: vm %s", fs.ErrNotExist, v.Name())
	}
	v.sessions[name] = s
	return s, nil
}

// drop takes the session out of the table and has it end.
func (s *Session) drop() {
	s.vm.mu.Lock()
	if s.vm.sessions[s.Name] == s {
		delete(s.vm.sessions, s.Name)
	}
	s.vm.mu.Unlock()
	s.cancel()
}

// DropSession removes a session; calls under way are given up.
func (v *Sandbox) DropSession(ctx context.Context, name string) error {
	s, err := v.Session(name)
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
