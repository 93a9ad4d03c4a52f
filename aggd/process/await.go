package process

import (
	"context"
	"errors"
	"time"

	"hutch/fs"
)

// Patience is how long those who need a process wait while it is started again.
const Patience = time.Second

// Await waits for a process that Keep keeps running. Look says whether the waiting
// is over, what is closed when that changes, and why no process runs, if it knows. The first process is waited for as long as ctx lasts, for it runs soon
// or says why not; after that a cause ends the waiting once late is closed, and
// at once where there is no program to run.
func Await(ctx context.Context, late <-chan struct{}, look func() (over bool, change <-chan struct{}, cause error)) error {
	for overdue := false; ; {
		over, change, cause := look()
		switch {
		case over:
			return cause
		case errors.Is(cause, fs.ErrNotExist), overdue && cause != nil:
			return cause
		}
		select {
		case <-change:
		case <-late:
			overdue, late = true, nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
