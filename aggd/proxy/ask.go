package proxy

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"hutch/aggd/wire"
)

// An asking is the requests that hutchd is asked about. There are no more of
// them than connections.
type asking struct {
	mu      sync.Mutex // guards waiting
	waiting map[uint64]chan wire.NetAnswer
}

func newAsking() *asking { return &asking{waiting: make(map[uint64]chan wire.NetAnswer)} }

func (a *asking) begin(id uint64) <-chan wire.NetAnswer {
	a.mu.Lock()
	defer a.mu.Unlock()
	answer := make(chan wire.NetAnswer, 1)
	a.waiting[id] = answer
	return answer
}

func (a *asking) end(id uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, id)
}

// answer passes an answer to the request that waits for it, if it still does.
func (a *asking) answer(n wire.NetAnswer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if to, ok := a.waiting[n.ID]; ok {
		to <- n // the only one that it gets
		delete(a.waiting, n.ID)
	}
}

// ask has hutchd decide the request, which the patterns allow, and waits for that.
func (x *exchange) ask(r *http.Request) {
	limit := x.policy.decideTime
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	if c, ok := ctx.Value(connKey{}).(*conn); ok && r.Body != http.NoBody {
		defer c.watch(cancel)() // net/http looks for a guest that hangs up only behind the body
	}
	answer := x.s.asking.begin(x.event.ID)
	defer x.s.asking.end(x.event.ID)
	x.event.Asks = true
	x.tell()
	x.event.Asks = false
	select {
	case a := <-answer:
		if !a.Allowed {
			x.verdict = verdict{wire.Denied, a.Rule, a.Reason}
		} else if a.Rule != "" {
			x.rule, x.reason = a.Rule, a.Reason
		}
	case <-ctx.Done():
		if ctx.Err() == context.DeadlineExceeded {
			x.verdict = deny("", "nobody decided in %v whether this may be", limit.Round(time.Second))
			return
		}
		x.verdict = verdict{wire.Errored, "", fmt.Sprintf("the guest hung up before it was decided whether it may reach %s", x.event.Host)}
	}
}
