package aggd

import (
	"context"
	"sync"
	"time"

	"hutch/aggd/wire"
)

// renewTime is how long a request that the server refuses waits for another token.
const renewTime = 20 * time.Second

// A bearer is the token of a server that the host replaces while connections use it.
type bearer struct {
	tell func() // the host, that the server refuses it

	mu      sync.Mutex // guards what follows
	token   string
	refused bool
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
	b.token, b.refused = token, b.refused && !other
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
	b.mu.Unlock()
	if token != refused {
		return token, true
	}
	b.tell()
	pause(renewTime, change, ctx.Done())
	token = b.get()
	return token, token != refused
}

// describe has a status say which token the server refuses.
func (b *bearer) describe(st *wire.Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refused {
		st.Refused = wire.TokenHash(b.token)
	}
}
