// Package guest speaks with the agent inside a guest: it is the client of
// the tree that package relay/agent serves over 9P2000.L.
//
// A guest dials the host, again and again: after its start, after a restore
// from a checkpoint, after hutchd was started anew. What is open here stays
// open meanwhile, and goes on with the next connection.
//
// The client is our own, because a guest can lie and hang, and
// github.com/hugelgupf/p9 trusts its server: it keeps its answer channels in
// a pool over all connections, so that one guest's broken connection fails
// another's request; it sends Tclunk from the finalizer goroutine, which one
// hung guest would stop for the whole program; it panics when a read is given
// more than it asked for; and it can cancel nothing. Here every request has
// a context, every answer is checked, and reads need no pump of their own: a
// cancelled one is flushed, and takes nothing, as all streams are read by
// offset. A program whose output is not read waits.
//
// The same client, turned round, serves the guest of a virtual machine, which
// mounts folders of its host (relay/ports, Share).
package guest

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hutch/fs"
)

// A Guest is the agent of one guest, over all its connections.
type Guest struct {
	// Refused, if set before the first Attach, is told of each connection
	// that was refused since the agent's is there. It must not wait.
	Refused func()

	limit  time.Duration   // answerLimit, or patience
	host   bool            // the other side is a host, which is not given up
	ctx    context.Context // done when the Guest is closed
	cancel context.CancelFunc
	work   sync.WaitGroup
	seed   maphash.Seed // of number
	used   atomic.Int64 // when it was used last, Unix time in nanoseconds
	sights sights

	mu         sync.Mutex // guards what follows
	conn       *conn
	last       uint64         // the number of the newest connection
	came       chan struct{}  // closed when there is a connection
	begun      net.Conn       // the newest connection, while it begins to speak
	challenged bool           // conn has to show that it is still there
	left       error          // why there will be no connection for a while
	open       map[*file]bool // of a host's folders
}

// New returns a Guest that has no connection yet.
func New() *Guest {
	g := &Guest{limit: answerLimit, seed: maphash.MakeSeed(), came: make(chan struct{}), open: make(map[*file]bool)}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// Attach takes over a connection from the agent. It replaces the one before if
// that is lost: whoever dials while the agent answers on its own is not it.
func (g *Guest) Attach(c net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx.Err() != nil {
		c.Close()
		return
	}
	old := g.conn
	if old != nil && old.ended() != nil {
		old = nil
	}
	if old != nil && g.challenged {
		c.Close()
		g.work.Go(g.refused)
		return
	}
	g.last++
	number := g.last
	if g.begun != nil {
		g.begun.Close()
	}
	g.begun = c
	if old != nil {
		g.challenged = true
		g.work.Go(func() { g.challenge(old, c, number) })
		return
	}
	g.work.Go(func() { g.serve(c, number) })
}

// challengeTime is how long an agent may take to show that it is still there,
// when another one says to be it. A loss that the host has not noticed takes as
// long to be mended.
const challengeTime = 5 * time.Second

// challenge serves c if the connection there is does not answer any more.
func (g *Guest) challenge(old *conn, c net.Conn, number uint64) {
	ctx, cancel := context.WithTimeoutCause(g.ctx, min(challengeTime, g.limit), errLate)
	old.ping(ctx)
	cancel()
	alive := old.ended() == nil
	g.mu.Lock()
	g.challenged = false
	if alive && g.begun == c {
		g.begun = nil
	}
	g.mu.Unlock()
	if !alive {
		g.serve(c, number)
		return
	}
	c.Close()
	g.refused()
}

func (g *Guest) refused() {
	if g.Refused != nil {
		g.Refused()
	}
}

// serve begins to speak on c and keeps it until it ends.
func (g *Guest) serve(c net.Conn, number uint64) {
	ctx, cancel := g.limited(g.ctx)
	n, err := dial(ctx, c, g.limit)
	cancel()
	if err != nil {
		c.Close()
		return
	}
	if g.install(n, number) {
		select {
		case <-n.down:
		case <-g.ctx.Done():
			n.end(errGone)
		}
		g.withdraw(n)
	}
	n.flush.Wait()
	<-n.done
}

// install makes n the connection, unless a newer one came.
func (g *Guest) install(n *conn, number uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if number != g.last || g.ctx.Err() != nil {
		n.end(errLost)
		return false
	}
	if g.conn != nil {
		g.conn.end(errLost)
		g.away()
	}
	g.begun, g.conn = nil, n
	close(g.came)
	return true
}

func (g *Guest) withdraw(n *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conn == n {
		g.away()
	}
}

// away notes that there is no connection. It is called with mu held.
func (g *Guest) away() {
	g.conn = nil
	g.came = make(chan struct{})
}

// errGone is the error of everything after Close.
var errGone = fmt.Errorf("%w: guest is gone", fs.ErrIO)

// IsGone says whether err is that of everything after Close.
func IsGone(err error) bool { return errors.Is(err, errGone) }

// Close ends the connection and whatever is under way, and waits for it.
func (g *Guest) Close() error {
	g.mu.Lock()
	g.cancel()
	if g.begun != nil {
		g.begun.Close()
	}
	g.mu.Unlock()
	g.work.Wait()
	g.sights.close()
	return nil
}

// background does f, and Close waits for it. After Close it is not done, and
// background returns false.
func (g *Guest) background(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx.Err() != nil {
		return false
	}
	g.work.Go(f)
	return true
}

// Ready waits for the agent's connection.
func (g *Guest) Ready(ctx context.Context) error {
	_, err := g.connected(ctx)
	return err
}

// Leave says why the guest will not be there until Return: it is suspended.
// Its connection ends at once, and not when the end of its machine is seen.
// What has a time limit fails with why meanwhile; what may block does so.
func (g *Guest) Leave(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = why
	g.last++ // install refuses one that begins to speak
	if g.begun != nil {
		g.begun.Close()
		g.begun = nil
	}
	if g.conn != nil {
		g.conn.end(errLost)
	} else { // who waits is to look again
		close(g.came)
	}
	g.away()
}

// Return says that the guest will connect again.
func (g *Guest) Return() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = nil
}

// connected returns the connection, as soon as there is one.
func (g *Guest) connected(ctx context.Context) (*conn, error) {
	g.use(ctx)
	for {
		g.mu.Lock()
		if g.conn != nil && g.conn.ended() != nil {
			g.away()
		}
		n, came, left := g.conn, g.came, g.left
		g.mu.Unlock()
		if n != nil {
			return n, nil
		}
		if _, hurried := ctx.Deadline(); hurried && left != nil {
			return nil, left
		}
		select {
		case <-came:
		case <-g.ctx.Done():
			return nil, errGone
		case <-ctx.Done():
			if context.Cause(ctx) == errLate {
				return nil, errAway
			}
			return nil, ctx.Err()
		}
	}
}

// errAway is the error of a request that found no connection in its time.
var errAway = fmt.Errorf("%w: guest is not connected", fs.ErrTimedOut)

// limited returns a context for what the guest has to do in its time.
func (g *Guest) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, g.limit, errLate)
}

// try does f, which changes nothing, on the connection; and once more on the
// next one if the connection is lost meanwhile.
func (g *Guest) try(ctx context.Context, f func(context.Context, *conn) error) error {
	ctx, cancel := g.limited(ctx)
	defer cancel()
	for again := false; ; again = true {
		n, err := g.connected(ctx)
		if err != nil {
			return err
		}
		if err = f(ctx, n); again || !errors.Is(err, errLost) {
			return err
		}
	}
}

// once does f on the connection. If that is lost, nobody knows what was done.
func (g *Guest) once(ctx context.Context, f func(context.Context, *conn) error) error {
	ctx, cancel := g.limited(ctx)
	defer cancel()
	n, err := g.connected(ctx)
	if err != nil {
		return err
	}
	return f(ctx, n)
}

// Ctl writes one message to the agent's own ctl.
func (g *Guest) Ctl(ctx context.Context, message string) error {
	err := fs.CheckMessage(message)
	if err == nil {
		err = g.once(ctx, func(ctx context.Context, n *conn) error { return n.tell(ctx, n.call, []string{"ctl"}, message) })
	}
	return g.explain(ctx, err, "err")
}

// tell opens a ctl and writes one message to it.
func (n *conn) tell(ctx context.Context, do caller, path []string, message string) error {
	fid, _, err := n.open(ctx, path, oWronly)
	if err != nil {
		return err
	}
	defer n.clunk(fid)
	return n.writeMessage(ctx, do, fid, message)
}

// SetEnv changes the environment of every command to come: K=V sets a
// variable, K alone takes it away.
func (g *Guest) SetEnv(ctx context.Context, changes []string) error {
	text := []byte(strings.Join(changes, "\x00") + "\x00")
	err := g.try(ctx, func(ctx context.Context, n *conn) error {
		fid, _, err := n.open(ctx, []string{"env"}, oWronly|oTrunc)
		if err != nil {
			return err
		}
		defer n.clunk(fid)
		for off := 0; off < len(text); {
			got, err := n.writeAt(ctx, n.call, fid, text[off:], int64(off))
			switch {
			case err != nil:
				return err
			case got == 0:
				return fmt.Errorf("%w: guest took nothing of a write", fs.ErrIO)
			}
			off += got
		}
		return n.sync(ctx, fid)
	})
	return g.explain(ctx, err, "err")
}

// Shutdown tells the agent to end everything that runs, then itself. It
// returns when the agent has been told.
func (g *Guest) Shutdown(ctx context.Context) error { return g.Ctl(ctx, "shutdown") }

// near is how exact a clock is to be, if that can be had.
const near = 5 * time.Millisecond

// SetClock tells a guest with a clock of its own what time it is. Its clock is
// then late by what that takes to come, so it is told again if it took long.
func (g *Guest) SetClock(ctx context.Context) error {
	for range 3 {
		now := time.Now()
		if err := g.Ctl(ctx, fmt.Sprintf("clock %d", now.UnixNano())); err != nil || time.Since(now) < near {
			return err
		}
	}
	return nil
}

// SetHostname gives a guest with a kernel of its own another host name.
func (g *Guest) SetHostname(ctx context.Context, name string) error {
	return g.Ctl(ctx, "hostname "+fs.Quote(name))
}

// Sync has the guest write to its disk what it keeps in memory.
func (g *Guest) Sync(ctx context.Context) error {
	// Not in the time that once has, which is for what does not take long.
	err := g.once(ctx, func(_ context.Context, n *conn) error { return n.tell(ctx, n.callSlow, []string{"ctl"}, "sync") })
	return g.explain(ctx, err, "err")
}

// Execs returns the names of the guest's execs.
func (g *Guest) Execs(ctx context.Context) ([]string, error) {
	var names []string
	err := g.try(ctx, func(ctx context.Context, n *conn) error {
		list, err := n.list(ctx, []string{"exec"})
		names = names[:0]
		for _, e := range list {
			names = append(names, e.Name)
		}
		return err
	})
	return names, err
}

// Exec returns the exec called name, if the guest has it.
func (g *Guest) Exec(ctx context.Context, name string) (*Exec, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	err := g.try(ctx, func(ctx context.Context, n *conn) error {
		fid, err := n.walk(ctx, []string{"exec", name})
		if err == nil {
			n.clunk(fid)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w: exec %s", err, name)
	}
	return newExec(g, name), nil
}

// MakeExec makes an exec called name.
func (g *Guest) MakeExec(ctx context.Context, name string) (*Exec, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	err := g.once(ctx, func(ctx context.Context, n *conn) error {
		dir, err := n.execs(ctx)
		if err != nil {
			return err
		}
		return n.mkdir(ctx, dir, name, 0o755)
	})
	if err != nil {
		return nil, g.explain(ctx, err, "err")
	}
	e := newExec(g, name)
	e.openEarly()
	return e, nil
}

// Cons opens the guest's console. It begins with a little of what was said
// last.
func (g *Guest) Cons(ctx context.Context, flags int) (fs.Handle, error) {
	f, err := g.openFile(ctx, []string{"cons"}, flags, true)
	if err != nil {
		return nil, err
	}
	st, err := g.stat(ctx, f.path)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &consHandle{file: f, begun: max(0, int64(st.Size)-consRecent)}, nil
}

const consRecent = 4 << 10

// A consHandle is the open console. The guest counts its bytes from the
// first there ever was, the reader from where it came in.
type consHandle struct {
	*file
	begun int64
}

func (h *consHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	return h.file.ReadAt(ctx, p, h.begun+off)
}
