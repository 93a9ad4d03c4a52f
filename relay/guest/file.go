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

// A file is an open file of the guest. It knows its path, so that it can be
// opened again when the connection is another one; readers and writers of it
// notice nothing, but for a write whose answer was lost.
type file struct {
	fs.MadeUp

	g      *Guest
	path   []string
	flags  int
	stream bool
	turn   chan struct{} // holds a token: whoever has it opens

	mu     sync.Mutex  // guards what follows
	fid    *client.Fid // nil: it has to be opened first
	qid    uint64      // of what was opened
	opened bool
	users  int  // who may be at a request
	closed bool // no more of them come
}

// newFile returns a file that its first use will open; stream says that its
// reads and writes may block.
func newFile(g *Guest, path []string, flags int, stream bool) *file {
	return &file{g: g, path: path, flags: flags, stream: stream, turn: make(chan struct{}, 1)}
}

// openFile opens path.
func (g *Guest) openFile(ctx context.Context, path []string, flags int, stream bool) (*file, error) {
	f := newFile(g, path, flags, stream)
	ctx, cancel := g.limited(ctx)
	defer cancel()
	if _, err := f.bind(ctx); err != nil {
		return nil, err
	}
	g.remember(f)
	return f, nil
}

func (f *file) Stream() bool { return f.stream }

// errClosed is the error of requests that come after Close.
var errClosed = fmt.Errorf("%w: it was closed", fs.ErrNotExist)

// enter counts a user of the file in, whose fid stays until leave: given back
// too early, it may be another file's when the request comes.
func (f *file) enter() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errClosed
	}
	f.users++
	return nil
}

func (f *file) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users--
	f.release()
}

// shut has enter refuse, and says whether it did not yet.
func (f *file) shut() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := !f.closed
	f.closed = true
	return first
}

// forsake has the next bind open the file anew: its fid is being given back.
func (f *file) forsake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fid = nil
}

// release gives the fid of a closed file back, once, when nobody uses it. It
// is called with mu held.
func (f *file) release() {
	if f.closed && f.users == 0 && f.fid != nil {
		f.fid.Clunk()
		f.fid = nil
	}
}

// bind returns the file's fid on the connection there is.
func (f *file) bind(ctx context.Context) (*client.Fid, error) {
	f.g.use()
	for {
		if fid := f.bound(); fid != nil {
			return fid, nil
		}
		err := f.open(ctx)
		if err != nil && !errors.Is(err, client.ErrLost) {
			return nil, err
		}
	}
}

func (f *file) bound() *client.Fid {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fid != nil && f.fid.Conn().Ended() != nil {
		return nil
	}
	return f.fid
}

// open opens the file on the connection there is, if that has not been done.
func (f *file) open(ctx context.Context) error {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return client.Cause(ctx)
	}
	if f.bound() != nil {
		return nil
	}
	c, err := f.g.connected(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	flags, path, again, was := f.flags, f.path, f.opened, f.qid
	if again {
		flags &^= os.O_TRUNC
	}
	f.mu.Unlock()
	fid, err := c.Open(ctx, path, flags)
	switch {
	case err != nil:
		return err
	case again && f.g.host && fid.Qid.Path != was:
		fid.Clunk()
		return fmt.Errorf("%w: another file was put in the place of this one", fs.ErrIO)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fid, f.qid, f.opened = fid, fid.Qid.Path, true
	return nil
}

// limit gives what is no stream the guest's time.
func (f *file) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.blocks() {
		return ctx, func() {}
	}
	return f.g.limited(ctx)
}

// blocks says whether a read or a write may take as long as it likes.
func (f *file) blocks() bool { return f.stream && f.flags&syscall.O_NONBLOCK == 0 }

func (f *file) pace() client.Pace {
	if f.blocks() {
		return client.Stream
	}
	return client.Quick
}

func (f *file) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := f.enter(); err != nil {
		return 0, err
	}
	defer f.leave()
	ctx, cancel := f.limit(ctx)
	defer cancel()
	for {
		fid, err := f.bind(ctx)
		if err != nil {
			return 0, err
		}
		n, err := fid.ReadAt(ctx, f.pace(), p, off)
		if !errors.Is(err, client.ErrLost) {
			return n, err
		}
	}
}

func (f *file) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	if err := f.enter(); err != nil {
		return 0, err
	}
	defer f.leave()
	ctx, cancel := f.limit(ctx)
	defer cancel()
	total := 0
	for {
		fid, err := f.bind(ctx)
		if err == nil {
			var n int
			n, err = fid.Write(ctx, f.pace(), p[total:], off+int64(total))
			total += n
		}
		f.wrote()
		switch {
		case errors.Is(err, client.ErrLost) && f.g.host: // the same bytes at the same place do no harm
		case err != nil && total == 0:
			return 0, err
		case err != nil || total == len(p):
			return total, nil
		}
	}
}

// wrote takes the file, which is another now, out of sight.
func (f *file) wrote() {
	if f.stream {
		return
	}
	f.mu.Lock()
	path := f.path
	f.mu.Unlock()
	f.g.sights.forget(path)
}

// Sync makes what was written durable in the guest.
func (f *file) Sync(ctx context.Context) error {
	if err := f.enter(); err != nil {
		return err
	}
	defer f.leave()
	ctx, cancel := f.g.limited(ctx)
	defer cancel()
	fid, err := f.bind(ctx)
	if err != nil || f.stream {
		return err
	}
	return fid.Sync(ctx)
}

// Close closes the file in the guest, when the requests under way have their
// answers. Nobody waits for that. It is idempotent.
func (f *file) Close() error {
	f.g.forget(f)
	f.shut()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.release()
	return nil
}

// text returns the contents of a file that ends.
func (g *Guest) text(ctx context.Context, path []string) (text string, err error) {
	err = g.try(ctx, func(ctx context.Context, c *client.Conn) error {
		text, err = c.Text(ctx, client.Quick, path)
		return err
	})
	return text, err
}

func (g *Guest) stat(ctx context.Context, path []string) (st fs.Stat, err error) {
	err = g.try(ctx, func(ctx context.Context, c *client.Conn) error {
		st, err = c.Stat(ctx, path)
		return err
	})
	return st, err
}
