package clients

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"hutch/fs"
)

// lockLimit is how long another may have the lock.
const lockLimit = 10 * time.Second

// lock keeps every other hutch of the user from changing files in the folder,
// until unlock is called. It is of the folder, so that nothing new lies there:
// the file is another after each change, and a file beside it would be one
// that some clients take for a lock of their own.
func (f *file) lock(ctx context.Context) (unlock func(), err error) {
	d, err := f.folder.Open(".")
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(lockLimit)
	defer late.Stop()
	for {
		err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { d.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			d.Close()
			return nil, fmt.Errorf("lock of the folder of %s: %w", f.c.shown(), err)
		}
		select {
		case <-tick.C:
			continue
		case <-late.C:
			err = fmt.Errorf("%w: another program has the folder of %s locked", fs.ErrBusy, f.c.shown())
		case <-ctx.Done():
			err = ctx.Err()
		}
		d.Close()
		return nil, err
	}
}

// reading holds a token: whoever has it reads a file and makes of it what it
// says, so that many who ask at once need no more than one does.
var reading = make(chan struct{}, 1)

// turn waits for the token, and returns what gives it back.
func turn(ctx context.Context) (end func(), err error) {
	if err := ctx.Err(); err != nil { // whoever went away takes no turn
		return nil, err
	}
	select {
	case reading <- struct{}{}:
		return func() { <-reading }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
