package fuse

import (
	"context"
	"sync"
	"syscall"
	"time"

	"hutch/fs"
)

// A request is the context of one call: done when the client gives up, when
// the server closes, and when the call has been answered. Most calls never
// ask whether they are done, so only Done starts what watches for it.
type request struct {
	s       *Server
	client  context.Context
	lingers time.Duration // how long it goes on when the client gave up
	once    sync.Once
	done    chan struct{}
	ended   chan struct{}
}

// do makes a call that is answered soon, and returns the errno of its answer.
//
// Any signal interrupts a request, also one that the program has for its own
// use, as Go's runtime does, and a shell when a job in the background ends:
// programs call again, and find that a file to be removed is gone already, or
// a VM to be made is there; and a close nobody tries again. So the interrupt
// of such a call counts after a while only, and not at all while the program
// has none but idle signals.
func (s *Server) do(client context.Context, call func(context.Context) error) syscall.Errno {
	return s.answer(client, lingering, call)
}

// lingering is how much longer than an interrupt a call may take that is no
// read.
var lingering = 2 * time.Second

// looking is how often a program is then asked what signals it has.
const looking = 100 * time.Millisecond

// block makes a call that may take as long as it likes, a read: an interrupt
// ends it at once.
func (s *Server) block(client context.Context, call func(context.Context) error) syscall.Errno {
	return s.answer(client, 0, call)
}

func (s *Server) answer(client context.Context, lingers time.Duration, call func(context.Context) error) syscall.Errno {
	r := s.begin(client)
	if r == nil {
		return syscall.ECONNABORTED
	}
	r.lingers = lingers
	defer r.end()
	return r.errno(call(r))
}

// begin returns nil if the server is closing.
func (s *Server) begin(client context.Context) *request {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil
	}
	s.calls.Add(1)
	s.opt.Counters.Requests.Add(1)
	return &request{s: s, client: client, done: make(chan struct{}), ended: make(chan struct{})}
}

func (r *request) end() {
	close(r.ended)
	r.s.calls.Done()
}

// errno is what the client gets for err. One that was cut off because the
// server closes is told what it would be told of a server that died: on
// EINTR many programs would try again.
func (r *request) errno(err error) syscall.Errno {
	e := fs.Errno(err)
	if e == 0 {
		return 0
	}
	r.s.opt.Counters.Errors.Add(1)
	if e == syscall.EINTR {
		select {
		case <-r.s.stop:
			return syscall.ECONNABORTED
		default:
			r.s.opt.Counters.Interrupted.Add(1)
		}
	}
	return e
}

func (r *request) Done() <-chan struct{} {
	r.once.Do(func() { go r.watch() })
	return r.done
}

// watch ends with the call at the latest.
func (r *request) watch() {
	defer close(r.done)
	select {
	case <-r.client.Done():
	case <-r.s.stop:
		return
	case <-r.ended:
		return
	}
	if r.lingers == 0 {
		return
	}
	rest := time.NewTimer(r.lingers)
	defer rest.Stop()
	for {
		select {
		case <-rest.C:
		case <-r.s.stop:
			return
		case <-r.ended:
			return
		}
		if !idle(r.client) {
			return
		}
		rest.Reset(looking)
	}
}

func (r *request) Err() error {
	if r.lingers == 0 && r.client.Err() != nil {
		return context.Canceled
	}
	select {
	case <-r.s.stop:
		return context.Canceled
	case <-r.ended:
		return context.Canceled
	case <-r.done:
		return context.Canceled
	default:
		return nil
	}
}

func (r *request) Deadline() (time.Time, bool) { return time.Time{}, false }
func (r *request) Value(key any) any           { return r.client.Value(key) }
