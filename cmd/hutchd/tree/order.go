package tree

import (
	"context"
	"fmt"

	"hutch/fs"
)

// A turn is a lock that is waited for as long as a context allows: whoever has
// taken it uses what it guards.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t turn) give() { <-t }

// An inOrder reads a stream that is made as it is read. What was read last can be
// read again.
type inOrder struct {
	origin
	next int64  // offset in the stream of what comes next
	last []byte // what came before that
}

func (o *inOrder) read(p []byte, off int64, more func(p []byte) (int, error)) (int, error) {
	if !o.known {
		o.known, o.at = true, off
	}
	back := o.next - (off - o.at)
	if back > 0 && back <= int64(len(o.last)) {
		return copy(p, o.last[int64(len(o.last))-back:]), nil
	}
	if back != 0 {
		return 0, fmt.Errorf("%w: offset %d: it is made as it is read, and stands at %d", fs.ErrInvalid, off, o.at+o.next)
	}
	n, err := more(p)
	if n > 0 {
		o.next, o.last = o.next+int64(n), append(o.last[:0], p[:n]...)
	}
	return n, err
}
