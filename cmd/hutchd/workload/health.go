package workload

import (
	"context"
	"errors"
	"time"

	"hutch/aggd/wire"
	"hutch/profiles/runconfig"
)

// pingTime is how often a server is asked whether it answers, in ToolHive's rhythm.
const pingTime = 10 * time.Second

// watch has the state follow what the server does by itself, until it is gone.
func (s *Server) watch() {
	for {
		select {
		case <-s.Context().Done():
			return
		case <-s.changed:
		case <-time.After(s.nextFreshen()):
		}
		if s.take(s.Context()) == nil {
			s.observe()
			s.give()
		}
	}
}

// wake has those look again who wait for another state.
func (s *Server) wake() {
	for _, c := range []chan struct{}{s.changed, s.heard} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// observe enters the state that is so where the server is to run. It is the caller's
// turn.
func (s *Server) observe() {
	if !s.told().Live() || s.freshen() != nil {
		return
	}
	now, why := s.look()
	if on := found[now]; now != s.told() && on != "" {
		s.enter(on, why)
	}
}

// found are the events by which a server that runs gets the state that it is found in.
var found = map[runconfig.State]runconfig.Event{
	runconfig.Running: runconfig.Well, runconfig.Unhealthy: runconfig.Sick, runconfig.Degraded: runconfig.Lack,
}

// connection returns what the aggregator says of the server, which has a second for that.
func (s *Server) connection(ctx context.Context) (wire.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return s.MCP.Status(ctx, s.Name)
}

// lacking says why a server that is to run offers nothing; "" if it does, or a call may
// have it do so.
func (s *Server) lacking(state runconfig.State) string {
	if state != runconfig.Unhealthy {
		return ""
	}
	if st, err := s.connection(s.Context()); err == nil && !st.Connected && st.ToolCount == 0 {
		return s.Hides(st.Error)
	}
	return ""
}

// unlisted says which of its lists the server that runs does not give, and why, and
// what is left out of the others; there is nothing if it gives them whole.
func (s *Server) unlisted(ctx context.Context) (notes []string) {
	if !s.told().Live() {
		return nil
	}
	st, err := s.connection(ctx)
	if err != nil {
		return nil
	}
	if st.State == wire.Degraded { // what else may be wrong ends the connection
		notes = append(notes, s.Hides(st.Error))
	}
	for _, why := range st.LeftOut {
		notes = append(notes, s.Hides(why))
	}
	return notes
}

// look returns the state, and what is wrong: what the server was told and, if it is
// to run, what is so.
func (s *Server) look() (runconfig.State, error) {
	s.mu.Lock()
	state, why := s.state, s.why
	s.mu.Unlock()
	if !state.Live() || state == runconfig.AuthRetrying {
		return state, why
	}
	switch st, err := s.connection(s.Context()); {
	case err != nil:
		return runconfig.Unhealthy, err
	case st.State == wire.Connected:
		return runconfig.Running, nil
	case st.State == wire.Degraded:
		return runconfig.Degraded, errors.New(s.Hides(st.Error))
	case st.Error != "":
		return runconfig.Unhealthy, errors.New(s.Hides(st.Error))
	}
	return runconfig.Unhealthy, errors.New("it is being started again")
}
