package tree

import (
	"context"
	"fmt"
	"os"

	"hutch/fs"
)

// wantBoth refuses to open for reading or writing alone what does something, so
// that programs which read every file of a tree do nothing.
func wantBoth(flags int) error {
	if flags&os.O_RDWR == 0 {
		return fmt.Errorf("%w: open it for reading and writing: what is written on it asks, and what is read then answers", fs.ErrPermission)
	}
	return nil
}

// asked is an open file on which messages are written, and then what they ask for
// is read. A read completes a message that has no newline. What a write or a read
// does ends when its caller gives up waiting or the file is closed; one at a time
// does something.
type asked struct {
	fs.MadeUp
	what   asking
	words  *fs.Writer
	open   context.Context // done when the file is closed
	closes context.CancelFunc
	turn   turn // guards what
}

// An asking is what such a file does.
type asking interface {
	say(ctx context.Context, message string) error
	read(ctx context.Context, p []byte, off int64) (int, error)
	end() // called once, last
}

// openAsked opens a file that takes lines of up to max bytes.
func openAsked(what asking, max int) *asked {
	h := &asked{what: what, turn: newTurn()}
	h.open, h.closes = context.WithCancel(context.Background())
	h.words = fs.NewLongWriter(h.say, max)
	return h
}

// use does f when it is its turn.
func (h *asked) use(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.open, cancel)()
	if err := h.turn.take(ctx); err != nil {
		return err
	}
	defer h.turn.give()
	return f(ctx)
}

func (h *asked) say(ctx context.Context, message string) error {
	return h.use(ctx, func(ctx context.Context) error { return h.what.say(ctx, message) })
}

func (h *asked) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	return h.words.Write(ctx, p)
}

func (h *asked) ReadAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	if err := h.words.Complete(ctx); err != nil {
		return 0, err
	}
	err = h.use(ctx, func(ctx context.Context) error {
		n, err = h.what.read(ctx, p, off)
		return err
	})
	return n, err
}

// Close ends what is under way, waits for it, and forgets what was asked.
func (h *asked) Close() error {
	h.closes()
	h.turn <- struct{}{}
	h.what.end()
	return nil
}

// An origin is where in a file begins what was asked: wherever the reader stands
// when it reads that first, so that a shell, whose one file offset the write has
// moved, reads it whole.
type origin struct {
	known bool
	at    int64
}

// within returns what an offset of the file is one of what was asked.
func (o *origin) within(off int64) int64 {
	if !o.known || off < o.at {
		o.known, o.at = true, off
	}
	return off - o.at
}
