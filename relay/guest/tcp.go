package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"hutch/fs"
	"hutch/fs/ninep/client"
)

// A TCP is a connection to a port inside the guest. It ends with the connection
// to the agent that it was made by.
type TCP struct {
	g    *Guest
	conn *client.Conn
	name string
	data *client.Fid

	turn chan struct{} // holds a token: whoever has it reads, and uses at
	at   int64         // how much was read

	mu     sync.Mutex // guards what follows
	users  int        // who are at a request
	closed bool       // no more come
}

// MakeTCP makes a TCP called name, which is not connected yet.
func (g *Guest) MakeTCP(ctx context.Context, name string) (*TCP, error) {
	if err := fs.CheckName(name); err != nil {
		return nil, err
	}
	t := &TCP{g: g, name: name, turn: make(chan struct{}, 1)}
	err := g.once(ctx, t.open)
	return t, g.explain(ctx, err, "err")
}

func (t *TCP) path(file string) []string { return []string{"net", "tcp", t.name, file} }

// open makes the connection's directory and opens its data.
func (t *TCP) open(ctx context.Context, c *client.Conn) error {
	dir, err := c.Walk(ctx, []string{"net", "tcp"})
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: the guest's agent is of an earlier hutch: stop the VM and start it, for one that can connect", fs.ErrUnsupported)
	}
	if err != nil {
		return err
	}
	defer dir.Clunk()
	if err := dir.Mkdir(ctx, t.name, 0o755); err != nil {
		return err
	}
	if t.data, err = c.Open(ctx, t.path("data"), os.O_RDWR); err != nil {
		dir.Remove(ctx, t.name, true)
		return err
	}
	t.conn = c
	return nil
}

// use does f with data, which stays open meanwhile.
func (t *TCP) use(f func() error) error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return errTCPClosed
	}
	t.users++
	t.mu.Unlock()
	t.g.use()
	err := f()
	t.mu.Lock()
	t.users--
	t.release()
	t.mu.Unlock()
	if errors.Is(err, client.ErrLost) {
		return ErrTCPLost
	}
	return err
}

// ErrTCPLost is returned when the connection to the agent is lost: a TCP does not
// go on with the next one.
var ErrTCPLost = fmt.Errorf("%w: the connection was lost with the one to the guest's agent", fs.ErrIO)

// errTCPClosed is the error of what comes after Close.
var errTCPClosed = fmt.Errorf("%w: the connection was removed", fs.ErrNotExist)

// release gives data of a closed TCP back, when nobody uses it. It is called
// with mu held.
func (t *TCP) release() {
	if t.closed && t.users == 0 && t.data != nil {
		t.data.Clunk()
		t.data = nil
	}
}

// Ctl writes one message to the connection's ctl, each on an open file of its
// own: a hangup does not wait for the connect before it. The error is the agent's.
func (t *TCP) Ctl(ctx context.Context, message string) error {
	if err := fs.CheckMessage(message); err != nil {
		return err
	}
	return t.use(func() error {
		// What is Quick or Slow takes one of few turns, and ends the connection to
		// the agent if it is late: but who does not answer a connect is another.
		ctx, cancel := context.WithTimeout(ctx, 2*t.g.limit)
		defer cancel()
		return t.explain(ctx, tell(ctx, t.conn, client.Stream, t.path("ctl"), message))
	})
}

// explain gives the error of a request the text that the agent keeps of it.
func (t *TCP) explain(ctx context.Context, err error) error {
	if err == nil || err != fs.Kind(fs.Errno(err)) {
		return err
	}
	text, terr := t.conn.Text(ctx, client.Quick, t.path("err"))
	if terr != nil {
		return err
	}
	return explain(err, text)
}

// Status returns what the agent says of the connection.
func (t *TCP) Status(ctx context.Context) (text string, err error) {
	err = t.use(func() error {
		ctx, cancel := t.g.limited(ctx)
		defer cancel()
		text, err = t.conn.Text(ctx, client.Quick, t.path("status"))
		return err
	})
	return text, err
}

// Read returns what came after what was read last; 0 and nil at the end. With
// nonblock it is ErrAgain where nothing came yet.
func (t *TCP) Read(ctx context.Context, p []byte, nonblock bool) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	if nonblock {
		select {
		case t.turn <- struct{}{}:
		default:
			return 0, fs.ErrAgain // somebody waits already
		}
	} else {
		select {
		case t.turn <- struct{}{}:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	defer func() { <-t.turn }()
	err = t.use(func() error {
		if nonblock {
			n, err = t.peek(ctx, p)
		} else {
			n, err = t.data.ReadAt(ctx, client.Stream, p, t.at)
		}
		return err
	})
	t.at += int64(n)
	if errors.Is(err, errTCPClosed) {
		err = nil // which is the end, for who waited, too
	}
	return n, err
}

// peek reads what there is.
func (t *TCP) peek(ctx context.Context, p []byte) (int, error) {
	ctx, cancel := t.g.limited(ctx)
	defer cancel()
	fid, err := t.conn.Open(ctx, t.path("data"), os.O_RDONLY|syscall.O_NONBLOCK)
	if err != nil {
		return 0, err
	}
	defer fid.Clunk()
	return fid.ReadAt(ctx, client.Quick, p, t.at)
}

// Write sends p, or a part of it before ctx is done.
func (t *TCP) Write(ctx context.Context, p []byte) (n int, err error) {
	err = t.use(func() error {
		n, err = t.data.Write(ctx, client.Stream, p, 0)
		return t.explain(ctx, err)
	})
	return n, err
}

// Close ends the connection in the guest, when the requests under way have their
// answers. Nobody waits for that. It is idempotent.
func (t *TCP) Close() {
	t.mu.Lock()
	first := !t.closed
	t.closed = true
	t.release()
	t.mu.Unlock()
	if first {
		t.g.background(func() {
			ctx, cancel := t.g.limited(t.g.ctx)
			defer cancel()
			t.conn.At(ctx, []string{"net", "tcp"}, func(dir *client.Fid) error { return dir.Remove(ctx, t.name, true) })
		})
	}
}
