package ninep

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// A client that has no file open can connect again and go on. So while there
// are as many connections as there may be, and another client waits, the server
// closes the connection on which nothing was said for longest; but first one
// that attached nowhere, and so is of no use.

const (
	silence   = 10 * time.Second // how long a client may at least say nothing
	lookEvery = time.Second / 10 // while another one waits
)

var epoch = time.Now()

var errGaveWay = errors.New("it had no file open and said nothing, and another client waited")

// A connTable has a server's connections.
type connTable struct {
	mu     sync.Mutex // guards what follows
	conns  map[*conn]bool
	closed *conn // the one that was closed to make room, until it has ended
}

func (t *connTable) add(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conns == nil {
		t.conns = map[*conn]bool{}
	}
	t.conns[c] = true
}

// remove says whether c was closed to make room for another.
func (t *connTable) remove(c *conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, c)
	gaveWay := t.closed == c
	if gaveWay {
		t.closed = nil
	}
	return gaveWay
}

// await waits for room, and says whether there is: not when ctx ends.
func (s *Server) await(ctx context.Context, room chan<- struct{}) bool {
	select {
	case room <- struct{}{}:
		return true
	default:
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		s.makeRoom()
		select {
		case room <- struct{}{}:
			return true
		case <-look.C:
		case <-ctx.Done():
			return false
		}
	}
}

// makeRoom closes a connection, if there is one that can be spared.
func (s *Server) makeRoom() {
	t := &s.conns
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed != nil { // it is about to end
		return
	}
	last := int64(time.Since(epoch) - cmp.Or(s.silence, silence))
	var attached bool // t.closed is
	for c := range t.conns {
		if c.heard.Load() > last {
			continue
		}
		has, busy := c.uses()
		if !busy && (t.closed == nil || !has && attached || has == attached && c.heard.Load() < t.closed.heard.Load()) {
			t.closed, attached = c, has
		}
	}
	if t.closed != nil {
		t.closed.rw.Close()
	}
}

// uses says whether the client has any fids, and whether it waits for a reply
// or has a file open.
func (c *conn) uses() (fids, busy bool) {
	s := c.now.Load()
	if s == nil {
		return false, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.fids {
		if f.open != nil {
			return true, true
		}
	}
	return len(s.fids) > 0, len(s.tags) > 0
}
