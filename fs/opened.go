package fs

import (
	"context"
	"syscall"
)

// opened is an open file of a row. It tells the row's object of every error
// that a client gets from it, and when it is closed.
type opened struct {
	Handle
	fail    func(error) error
	release func() // may be nil
}

func (o *opened) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	n, err := o.Handle.ReadAt(ctx, p, off)
	if errno := Errno(err); errno != syscall.EINTR && errno != syscall.EAGAIN { // which a client gets that stops waiting
		o.fail(err)
	}
	return n, err
}

func (o *opened) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	n, err := o.Handle.WriteAt(ctx, p, off)
	return n, o.fail(err)
}

func (o *opened) Flush(ctx context.Context) error {
	return o.fail(o.Handle.Flush(ctx))
}

func (o *opened) Sync(ctx context.Context) error {
	return o.fail(o.Handle.Sync(ctx))
}

func (o *opened) Close() error {
	if o.release != nil {
		defer o.release()
	}
	return o.fail(o.Handle.Close())
}
