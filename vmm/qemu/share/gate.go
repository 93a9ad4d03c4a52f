package share

import (
	"fmt"
	"sync"

	"hutch/fs"
)

// A gate is passed by every request of the guest.
type gate struct {
	mu     sync.Mutex // guards what follows
	moved  *sync.Cond // some of that has changed
	barred bool       // who comes waits
	closed bool       // who comes goes
	inside int
}

func newGate() *gate {
	g := &gate{}
	g.moved = sync.NewCond(&g.mu)
	return g
}

var errClosed = fmt.Errorf("%w: the machine ends", fs.ErrIO)

// enter waits until the gate is open, and fails when it is closed for good.
func (g *gate) enter() (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.barred && !g.closed {
		g.moved.Wait()
	}
	if g.closed {
		return nil, errClosed
	}
	g.inside++
	return g.leave, nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.moved.Broadcast()
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.barred = true
	g.empty()
}

// empty waits until nobody is inside.
func (g *gate) empty() {
	for g.inside > 0 {
		g.moved.Wait()
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.barred = false
	g.moved.Broadcast()
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.moved.Broadcast()
	g.empty()
}
