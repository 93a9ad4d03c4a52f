package agent

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"hutch/fs/ninep"
	"hutch/relay/port"
)

// Run serves the tree to the host, over one connection after the other,
// until ctx is done or the agent is told to shut down. Then it ends what
// runs, SIGTERM first, and closes the agent.
func (a *Agent) Run(ctx context.Context) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	work.Go(func() {
		port.Redial(serving, a.dial, func(conn net.Conn) bool {
			a.log.Debug("connected to the host")
			if err := a.Serve(serving, conn); err != nil {
				a.log.Debug("connection to the host lost", "err", err)
			}
			return true
		})
	})
	select {
	case <-ctx.Done():
	case <-a.down:
	}
	a.terminate() // the connection is still there: whoever asked gets an answer
	stop()
	work.Wait()
	return a.Close()
}

// dial connects to the host.
func (a *Agent) dial(ctx context.Context) (net.Conn, error) {
	conn, err := a.cfg.Dial(ctx)
	if err != nil {
		a.log.Debug("no connection to the host", "err", err)
	}
	return conn, err
}

// Serve serves the tree on one connection until that is lost. It replaces
// the one before.
func (a *Agent) Serve(ctx context.Context, conn net.Conn) error {
	s := &session{Conn: conn}
	defer s.connections.close()
	if old := a.session.Swap(s); old != nil {
		old.Close()
	}
	return (&ninep.Server{Root: a.tree(s), Log: a.log}).ServeConn(ctx, s)
}

// A session is a connection that knows whether it was lost, so that what is
// closed because of that is told from what the host closed.
type session struct {
	net.Conn
	broken      atomic.Bool
	after       atomic.Pointer[func()] // what the next answer is awaited for
	connections connections
}

func (s *session) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if err != nil {
		s.broken.Store(true)
	}
	return n, err
}

func (s *session) Write(p []byte) (int, error) {
	after := s.after.Load() // before what goes out now
	n, err := s.Conn.Write(p)
	if err != nil {
		s.broken.Store(true)
	}
	if after != nil {
		(*after)()
	}
	return n, err
}

func (s *session) Close() error {
	s.broken.Store(true)
	if after := s.after.Load(); after != nil {
		defer (*after)()
	}
	return s.Conn.Close()
}

// afterAnswer does f when the next answer is out, or none can come any more.
func (s *session) afterAnswer(f func()) {
	s.after.Store(&f)
	if s.lost() {
		f()
	}
}

func (s *session) lost() bool { return s.broken.Load() }

// holders counts who has something open, by connection.
type holders map[*session]int

// leave counts one out, and says whether it was the last one and closed what
// it had, instead of losing it with its connection. Others that are about to
// lose theirs do not count.
func (h holders) leave(from *session) bool {
	if h[from]--; h[from] == 0 {
		delete(h, from)
	}
	return !from.lost() && h.count() == 0
}

// count returns how many there are whose connection is not lost.
func (h holders) count() int {
	n := 0
	for s, k := range h {
		if !s.lost() {
			n += k
		}
	}
	return n
}

// terminate ends what runs: all processes if the agent is PID 1, else those
// of its commands. They get SIGTERM and, after the grace, SIGKILL.
func (a *Agent) terminate() {
	signal, left := a.signalCommands, func() bool { return a.runs() > 0 }
	if a.cfg.Init {
		signal, left = a.signalAll, func() bool { return len(a.ours()) > 0 }
	}
	signal(syscall.SIGTERM)
	signal(syscall.SIGCONT)
	if !a.awaitEnd(left, grace) {
		signal(syscall.SIGKILL)
		a.awaitEnd(left, grace)
	}
}

// awaitEnd waits until nothing is left, and says whether that came in time.
func (a *Agent) awaitEnd(left func() bool, limit time.Duration) bool {
	end := time.NewTimer(limit)
	defer end.Stop()
	for left() {
		select {
		case <-a.reaper.collected:
		case <-end.C:
			return false
		}
	}
	return true
}

// ours are the processes that an init ends.
func (a *Agent) ours() []process {
	return slices.DeleteFunc(processes(), func(p process) bool { return a.cfg.Keep(p.pid) })
}

// signalAll looks again until nobody is new: some may be starting others.
func (a *Agent) signalAll(sig syscall.Signal) {
	told := make(map[int]bool)
	for more := true; more; {
		more = false
		for _, p := range a.ours() {
			if !told[p.pid] {
				told[p.pid], more = true, true
				syscall.Kill(p.pid, sig)
			}
		}
	}
}

func (a *Agent) signalCommands(sig syscall.Signal) {
	for _, name := range a.names() {
		if c := a.command(name); c != nil {
			c.signal(sig)
		}
	}
}
