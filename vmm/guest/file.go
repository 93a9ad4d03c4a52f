package guest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"hutch/fs"
)

// A file is an open file of the guest. It knows its path, so that it can be
// opened again when the connection is another one; readers and writers of it
// notice nothing, but for a write whose answer was lost.
type file struct {
	g      *Guest
	path   []string
	flags  uint32
	stream bool
	turn   chan struct{} // holds a token: whoever has it opens

	mu     sync.Mutex // guards what follows
	n      *conn
	fid    uint32
	qid    uint64 // of what was opened
	opened bool
	users  int   // who may be at a request
	closed bool  // no more of them come
	at     int64 // where the exact continuation of a short read begins …
	rest   int   // … and how much it asks for; 0 if the last read was not short
}

// newFile returns a file that its first use will open; stream says that its
// reads and writes may block.
func newFile(g *Guest, path []string, flags int, stream bool) *file {
	return &file{g: g, path: path, flags: linuxFlags(flags), stream: stream, turn: make(chan struct{}, 1)}
}

// openFile opens path.
func (g *Guest) openFile(ctx context.Context, path []string, flags int, stream bool) (*file, error) {
	f := newFile(g, path, flags, stream)
	ctx, cancel := g.limited(ctx)
	defer cancel()
	if _, _, err := f.bind(ctx); err != nil {
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
	f.n = nil
}

// release gives the fid of a closed file back, once, when nobody uses it. It
// is called with mu held.
func (f *file) release() {
	if f.closed && f.users == 0 && f.n != nil {
		f.n.clunk(f.fid)
		f.n = nil
	}
}

// bind returns a connection and the file's fid on it.
func (f *file) bind(ctx context.Context) (*conn, uint32, error) {
	for {
		if n, fid, ok := f.bound(); ok {
			f.g.use(ctx)
			return n, fid, nil
		}
		err := f.open(ctx)
		if err != nil && !errors.Is(err, errLost) {
			return nil, 0, err
		}
	}
}

func (f *file) bound() (*conn, uint32, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n, f.fid, f.n != nil && f.n.ended() == nil
}

// open opens the file on the connection there is, if that has not been done.
func (f *file) open(ctx context.Context) error {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return over(ctx)
	}
	if _, _, ok := f.bound(); ok {
		return nil
	}
	n, err := f.g.connected(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	flags, path, again, was := f.flags, f.path, f.opened, f.qid
	if again {
		flags &^= oTrunc
	}
	f.mu.Unlock()
	fid, qid, err := n.open(ctx, path, flags)
	switch {
	case err != nil:
		return err
	case again && f.g.host && qid != was:
		n.clunk(fid)
		return fmt.Errorf("%w: another file was put in the place of this one", fs.ErrIO)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n, f.fid, f.qid, f.opened, f.rest = n, fid, qid, true, 0
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
func (f *file) blocks() bool { return f.stream && f.flags&oNonblock == 0 }

func (f *file) caller(n *conn) caller {
	if f.blocks() {
		return n.block
	}
	return n.call
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
		n, fid, err := f.bind(ctx)
		if err != nil {
			return 0, err
		}
		asked, got, err := n.readAt(ctx, f.caller(n), fid, p, off, f.avoid(off))
		if err == nil {
			f.note(off, asked, got)
			return min(got, len(p)), nil
		}
		if !errors.Is(err, errLost) {
			return 0, err
		}
	}
}

// avoid returns how much a read at off must not ask for: servers of 9P answer
// the exact continuation of a short read of a stream with nothing, for the
// sake of Linux' client.
func (f *file) avoid(off int64) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if off != f.at {
		return 0
	}
	return f.rest
}

func (f *file) note(off int64, asked, got int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.rest = off+int64(got), 0
	if f.stream && got > 0 {
		f.rest = asked - got
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
		n, fid, err := f.bind(ctx)
		if err == nil {
			var got int
			got, err = n.writeAt(ctx, f.caller(n), fid, p[total:], off+int64(total))
			total += got
			if err == nil && got == 0 && total < len(p) {
				err = fmt.Errorf("%w: guest took nothing of a write", fs.ErrIO)
			}
		}
		f.wrote()
		switch {
		case errors.Is(err, errLost) && f.g.host: // the same bytes at the same place do no harm
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
	n, fid, err := f.bind(ctx)
	if err != nil || f.stream {
		return err
	}
	return n.sync(ctx, fid)
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

const maxText = 1 << 20 // of a file that is read whole

// text returns the contents of a file that ends.
func (g *Guest) text(ctx context.Context, path []string) (string, error) {
	var text []byte
	err := g.try(ctx, func(ctx context.Context, n *conn) error {
		text = text[:0]
		fid, _, err := n.open(ctx, path, oRdonly)
		if err != nil {
			return err
		}
		defer n.clunk(fid)
		p := make([]byte, 8<<10)
		for {
			_, got, err := n.readAt(ctx, n.call, fid, p, int64(len(text)), 0)
			if err != nil || got == 0 {
				return err
			}
			if text = append(text, p[:got]...); len(text) > maxText {
				return n.liar("a text without an end")
			}
		}
	})
	return string(text), err
}

func (g *Guest) stat(ctx context.Context, path []string) (fs.Stat, error) {
	var st fs.Stat
	err := g.try(ctx, func(ctx context.Context, n *conn) error {
		fid, err := n.walk(ctx, path)
		if err != nil {
			return err
		}
		defer n.clunk(fid)
		st, err = n.stat(ctx, fid, path[len(path)-1])
		return err
	})
	return st, err
}
