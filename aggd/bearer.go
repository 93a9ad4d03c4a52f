package aggd

import (
	"context"
	"fmt"
	"sync"
	"time"

	"hutch/aggd/wire"
)

const (
	renewTime  = 20 * time.Second // that a request that the server refuses waits for another token
	renewPause = 10 * time.Second // from asking for another than a token until one is asked for again
)

// A bearer is the token of a server that the host replaces while connections use it.
type bearer struct {
	tell func() // the host, that the server refuses it

	mu      sync.Mutex // guards what follows
	token   string
	refused bool
	sought  string        // than which another was asked for last
	asked   time.Time     // when that was
	waits   bool          // it is not answered yet
	change  chan struct{} // closed when the host has said again which it is
}

func newBearer(token string, tell func()) *bearer {
	return &bearer{tell: tell, token: token, change: make(chan struct{})}
}

func (b *bearer) get() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.token
}

// set takes what the host says the token is, and reports whether it is another. Who
// waits for another waits no longer.
func (b *bearer) set(token string) (other bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	other = token != b.token
	b.token, b.refused, b.waits = token, b.refused && !other, false
	close(b.change)
	b.change = make(chan struct{})
	return other
}

// another returns another token than one that the server has refused, if there is
// one or the host can get it in time.
func (b *bearer) another(ctx context.Context, refused string) (token string, ok bool) {
	b.mu.Lock()
	token, change := b.token, b.change
	b.refused = b.refused || token == refused
	due := token == refused && (b.sought != refused || time.Since(b.asked) >= renewPause)
	if due {
		b.sought, b.asked, b.waits = refused, time.Now(), true
	}
	waits := b.waits
	b.mu.Unlock()
	switch {
	case token != refused:
		return token, true
	case !waits:
		return "", false
	case due:
		b.tell()
	}
	pause(renewTime, change, ctx.Done())
	token = b.get()
	return token, token != refused
}

// took notes whether the server took a token, if that is still the one.
func (b *bearer) took(token string, good bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if token == b.token {
		b.refused = !good
	}
}

// again says when another token is asked for.
func (b *bearer) again() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := max(renewPause-time.Since(b.asked), time.Second).Round(time.Second)
	return fmt.Sprintf("the server refuses its token, and another is asked for in %v at the soonest", left)
}

// describe has a status say which token the server refuses.
func (b *bearer) describe(st *wire.Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.refused {
		return
	}
	st.Refused = wire.TokenHash(b.token)
	if st.Error == "" {
		st.Error = "the server refuses its token"
	}
}
