// Package guest speaks with the agent inside a guest: it is the client of
// the tree that package relay/agent serves over 9P2000.L.
//
// A guest dials the host, again and again: after its start, after a restore
// from a checkpoint, after hutchd was started anew. What is open here stays
// open meanwhile, and goes on with the next connection.
//
// The same, turned round, serves the guest of a virtual machine, which
// mounts folders of its host (relay/ports, Share).
package guest

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"hutch/fs"
	"hutch/fs/ninep/client"
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
	conn       *client.Conn
	execs      *client.Fid    // of the directory of execs, kept
	last       uint64         // the number of the newest connection
	came       chan struct{}  // closed when there is a connection
	begun      net.Conn       // the newest connection, while it begins to speak
	challenged bool           // conn has to show that it is still there
	left       error          // why there will be no connection for a while
	open       map[*file]bool // of a host's folders
}

// answerLimit is how long a guest may take to answer what does not block: one
// without KVM, on a busy host, has been seen to take more than five seconds.
const answerLimit = 15 * time.Second

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
	if old != nil && old.Ended() != nil {
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
func (g *Guest) challenge(old *client.Conn, c net.Conn, number uint64) {
	ctx, cancel := context.WithTimeoutCause(g.ctx, min(challengeTime, g.limit), client.ErrLate)
	old.Ping(ctx)
	cancel()
	alive := old.Ended() == nil
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
	n, err := client.New(ctx, c, g.limit)
	cancel()
	if err != nil {
		return
	}
	if g.install(n, number) {
		select {
		case <-n.Down():
		case <-g.ctx.Done():
			n.End(errGone)
		}
		g.withdraw(n)
	}
	n.Close()
}

// install makes n the connection, unless a newer one came.
func (g *Guest) install(n *client.Conn, number uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if number != g.last || g.ctx.Err() != nil {
		n.End(client.ErrLost)
		return false
	}
	if g.conn != nil {
		g.conn.End(client.ErrLost)
		g.away()
	}
	g.begun, g.conn = nil, n
	close(g.came)
	return true
}

func (g *Guest) withdraw(n *client.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conn == n {
		g.away()
	}
}

// away notes that there is no connection. It is called with mu held.
func (g *Guest) away() {
	g.conn, g.execs = nil, nil
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
	g.use()
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
		g.conn.End(client.ErrLost)
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
func (g *Guest) connected(ctx context.Context) (*client.Conn, error) {
	for {
		g.mu.Lock()
		if g.conn != nil && g.conn.Ended() != nil {
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
			if context.Cause(ctx) == client.ErrLate {
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
	return context.WithTimeoutCause(ctx, g.limit, client.ErrLate)
}

// try does f, which changes nothing, on the connection; and once more on the
// next one if the connection is lost meanwhile.
func (g *Guest) try(ctx context.Context, f func(context.Context, *client.Conn) error) error {
	return g.ask(ctx, 2, f)
}

// once does f on the connection. If that is lost, nobody knows what was done.
func (g *Guest) once(ctx context.Context, f func(context.Context, *client.Conn) error) error {
	return g.ask(ctx, 1, f)
}

func (g *Guest) ask(ctx context.Context, times int, f func(context.Context, *client.Conn) error) error {
	g.use()
	ctx, cancel := g.limited(ctx)
	defer cancel()
	for {
		n, err := g.connected(ctx)
		if err != nil {
			return err
		}
		times--
		if err = f(ctx, n); times == 0 || !errors.Is(err, client.ErrLost) {
			return err
		}
	}
}
