package aggd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hutch/aggd/wire"
)

// acquire returns the live connection, connecting first where there is none. The
// caller releases it.
func (u *upstream) acquire(ctx context.Context) (*conn, error) {
	tries := -1
	for {
		u.mu.Lock()
		if tries < 0 {
			tries = u.tries
		}
		c, state, cause, change, tried := u.conn, u.state, u.cause, u.change, u.tries > tries
		dying := c != nil && c.isOver() // run is about to notice
		switch {
		case dying:
		case c != nil:
			u.busy++
		case state == wire.Stopped || state == wire.Failed && !tried:
			u.wakeRun()
		}
		u.mu.Unlock()
		switch {
		case dying:
		case c != nil:
			return c, nil
		case errors.Is(cause, errClosed):
			return nil, cause
		case state == wire.Failed && tried:
			// Not wrapped: an error of JSON-RPC that it gave is no answer to what is asked now.
			return nil, fmt.Errorf("server %s is not connected: %v", u.name, cause)
		}
		select {
		case <-change:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// wakeRun has run connect without waiting for its next try.
func (u *upstream) wakeRun() {
	select {
	case u.kick <- struct{}{}:
	default:
	}
}

func (u *upstream) release() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.busy--
	u.used = time.Now()
}
