package fs

import (
	"context"
	"sync/atomic"
	"syscall"
)

// opened is an open file of a row. It tells the row's object of every error
// that a client gets from it, and when it is closed.
type opened struct {
	Handle
	fail    func(error) error
	release func()      // may be nil
	failed  atomic.Bool // Flush failed, and nothing was written since
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
	if err == nil {
		o.failed.Store(false)
	}
	return n, o.fail(err)
}

func (o *opened) Flush(ctx context.Context) error {
	err := o.Handle.Flush(ctx)
	o.failed.Store(err != nil)
	return o.fail(err)
}

func (o *opened) Sync(ctx context.Context) error {
	return o.fail(o.Handle.Sync(ctx))
}

// Close tells of no error if Flush did: a mount closes a file at any time after
// its client has, and the error would stand over what the client did since.
func (o *opened) Close() error {
	if o.release != nil {
		defer o.release()
	}
	err := o.Handle.Close()
	if o.failed.Load() {
		return err
	}
	return o.fail(err)
}
