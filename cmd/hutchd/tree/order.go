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

// An inOrder reads a stream that is made as it is read. It begins wherever the
// reader stands when it reads first: a shell that has written through the same
// descriptor stands behind that. What was read last can be read again.
type inOrder struct {
	begun bool
	at    int64  // offset of what comes next
	last  []byte // what came before that
}

func (o *inOrder) read(p []byte, off int64, next func(p []byte) (int, error)) (int, error) {
	if !o.begun {
		o.begun, o.at = true, off
	}
	back := o.at - off
	if back > 0 && back <= int64(len(o.last)) {
		return copy(p, o.last[int64(len(o.last))-back:]), nil
	}
	if back != 0 {
		return 0, fmt.Errorf("%w: offset %d: it is made as it is read, and stands at %d", fs.ErrInvalid, off, o.at)
	}
	n, err := next(p)
	if n > 0 {
		o.at, o.last = o.at+int64(n), append(o.last[:0], p[:n]...)
	}
	return n, err
}
