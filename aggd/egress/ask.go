package egress

import (
	"context"
	"fmt"
	"sync"

	"hutch/aggd/wire"
)

// maxAsked is how many requests of one proxy may wait to be decided. It is more
// than the proxy has connections.
const maxAsked = 512

// An asked is the requests that a process waits for the decision of. Its methods
// are called by one goroutine.
type asked struct {
	decide func(context.Context, wire.NetEvent) wire.NetAnswer
	answer func(wire.NetAnswer)
	cancel map[uint64]context.CancelFunc
	work   sync.WaitGroup
}

// begin has e decided, and the process told.
func (a *asked) begin(e wire.NetEvent) {
	a.end(e.ID)
	if len(a.cancel) >= maxAsked {
		a.answer(wire.NetAnswer{ID: e.ID, Reason: fmt.Sprintf("more than %d requests wait to be decided", maxAsked)})
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel[e.ID] = cancel
	a.work.Go(func() {
		n := a.decide(ctx, e)
		n.ID = e.ID
		if ctx.Err() == nil {
			a.answer(n)
		}
	})
}

// end ends the wait for the decision of a request, if there is one.
func (a *asked) end(id uint64) {
	if cancel, ok := a.cancel[id]; ok {
		cancel()
		delete(a.cancel, id)
	}
}

// close ends all.
func (a *asked) close() {
	for id := range a.cancel {
		a.end(id)
	}
	a.work.Wait()
}
