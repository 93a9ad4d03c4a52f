package vmcp

import (
	"fmt"
	"sync"
	"time"

	"hutch/fs"
)

// Breakers keep requests from servers that fail. Each server has a circuit of its own:
//
//	closed --so many failures in a row--> open --after a while--> half-open
//	   ^------------------ it answers -------------------------------'
//
// While it is open, requests are refused at once. Half open, one is let through: if the
// server answers, all are again; if not, the circuit is open for as long as before.
type Breakers struct {
	now func() time.Time

	mu       sync.Mutex // guards what follows
	circuit  Circuit
	byServer map[string]*breaker
}

// A breaker is the circuit of one server.
type breaker struct {
	failures int       // in a row
	opened   time.Time // zero: it is closed
	trying   bool      // one request is under way that tells
}

// NewBreakers returns Breakers that know of no failure.
func NewBreakers(c Circuit) *Breakers {
	return &Breakers{now: time.Now, circuit: c, byServer: make(map[string]*breaker)}
}

// Set changes when circuits open and for how long. What has failed until now counts on.
func (bs *Breakers) Set(c Circuit) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	bs.circuit = c
	if !c.Enabled {
		clear(bs.byServer)
	}
}

// Begin says why no request may be made of a server now, or what is to be told when one
// was made. It is an mcpd.Guard.
func (bs *Breakers) Begin(server string) (done func(failed bool), err error) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if !bs.circuit.Enabled {
		return func(bool) {}, nil
	}
	b := bs.byServer[server]
	if b == nil {
		b = new(breaker)
		bs.byServer[server] = b
	}
	if wait := bs.wait(b); wait > 0 || b.trying {
		return nil, fmt.Errorf("%w: server %s failed %d times in a row and is not called: try again in %v", fs.ErrBusy, server, b.failures, max(wait, time.Second).Round(time.Second))
	}
	tries := !b.opened.IsZero()
	b.trying = tries
	return func(failed bool) { bs.end(b, tries, failed) }, nil
}

// wait returns how long the circuit stays open.
func (bs *Breakers) wait(b *breaker) time.Duration {
	if b.opened.IsZero() {
		return 0
	}
	return time.Duration(bs.circuit.Timeout) - bs.now().Sub(b.opened)
}

// end notes what came of a request; tries: it was let through while others were not.
func (bs *Breakers) end(b *breaker, tries, failed bool) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if !failed {
		*b = breaker{}
		return
	}
	b.failures++
	if tries || b.opened.IsZero() && b.failures >= bs.circuit.Threshold {
		b.opened = bs.now()
	}
	if tries {
		b.trying = false
	}
}

// State returns the state of a server's circuit: closed, open or half-open.
func (bs *Breakers) State(server string) string {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	b := bs.byServer[server]
	switch {
	case b == nil || b.opened.IsZero():
		return "closed"
	case bs.wait(b) > 0:
		return "open"
	}
	return "half-open"
}
