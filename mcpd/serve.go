package mcpd

import (
	"context"
	"fmt"
	"net"

	"hutch/fs"
)

// Serve serves one connection until it ends, ctx ends or the Endpoint is
// closed. It closes the connection.
func (e *Endpoint) Serve(ctx context.Context, conn net.Conn) error {
	return e.ServeFor(ctx, conn, "")
}

// ServeFor is Serve for a principal who asks through the tree, and whose requests
// need no envelope.
func (e *Endpoint) ServeFor(ctx context.Context, conn net.Conn, principal string) error {
	defer conn.Close()
	s := newSession(e, conn)
	s.principal = principal
	defer s.account.Close()
	if err := e.join(s); err != nil {
		return err
	}
	defer e.leave(s)
	stop := context.AfterFunc(e.ctx, s.hangUp)
	defer stop()
	stopCaller := context.AfterFunc(ctx, s.hangUp)
	defer stopCaller()
	return s.serve()
}

func (e *Endpoint) join(s *session) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return fmt.Errorf("%w: the endpoint is closed", fs.ErrBusy)
	}
	e.sessions[s] = struct{}{}
	e.running.Add(1)
	return nil
}

func (e *Endpoint) leave(s *session) {
	e.mu.Lock()
	delete(e.sessions, s)
	e.mu.Unlock()
	e.subs.drop(s)
	e.running.Done()
}

// each returns the sessions that pass the test, in no order.
func (e *Endpoint) each(test func(*session) bool) []*session {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []*session
	for s := range e.sessions {
		if test(s) {
			list = append(list, s)
		}
	}
	return list
}
