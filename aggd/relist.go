package aggd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hutch/aggd/wire"
)

// listMoment is how long a new connection waits for its lists before calls are made.
const listMoment = 2 * time.Second

// errListing is the error of a list that has not come within listMoment.
var errListing = errors.New("no answer yet")

// fetchAll fetches all lists of a new connection. It waits for them for listMoment only:
// what comes later holds up nothing else, and the host is told of it.
func (u *upstream) fetchAll(ctx context.Context, c *conn) {
	u.mu.Lock()
	for _, s := range u.lists {
		s.fresh = false
	}
	u.mu.Unlock()
	done := make(chan struct{})
	u.agg.tasks.Go(func() {
		defer close(done)
		limit, cancel := context.WithTimeoutCause(context.Background(), u.def.connectTimeout(), u.def.silent())
		defer cancel()
		u.fetchStale(limit, c)
	})
	if !pause(listMoment, done, ctx.Done()) {
		return
	}
	u.mu.Lock()
	for _, l := range wire.Lists {
		if s := u.lists[l]; !s.fresh && s.err == nil {
			s.err = fmt.Errorf("%s: %w", l.MCP, errListing)
		}
	}
	u.mu.Unlock()
	u.agg.tasks.Go(func() {
		<-done
		u.tellChanges()
		u.tellState()
	})
}

// fetchStale fetches the lists that are not fresh.
func (u *upstream) fetchStale(ctx context.Context, c *conn) {
	var all sync.WaitGroup
	for _, l := range wire.Lists {
		all.Go(func() { u.fetch(ctx, c, l) })
	}
	all.Wait()
}

// relist asks the server again for the lists that it has not given, until the connection
// ends. Each time it waits longer before it asks, and longer for the answer.
func (u *upstream) relist(c *conn) {
	for {
		select {
		case <-u.lacks:
		case <-c.over:
			return
		}
		limit := u.def.connectTimeout()
		for failures := 1; u.unlisted() != nil; failures++ {
			if !pause(backOff(failures), c.over, nil) {
				return
			}
			limit = min(2*limit, max(limit, u.def.callTimeout()))
			ctx, cancel := context.WithTimeoutCause(context.Background(), limit, fmt.Errorf("no answer within %v", limit))
			u.fetchStale(ctx, c)
			cancel()
			u.tellChanges()
			u.tellState()
		}
		u.setLate(false)
	}
}

// unlisted returns why the server has not given one of its lists, nil if it has given all.
func (u *upstream) unlisted() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, l := range wire.Lists {
		if err := u.lists[l].err; err != nil {
			return err
		}
	}
	return nil
}
