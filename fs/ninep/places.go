package ninep

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// A client that has no file open can connect again and go on. So while all
// places are taken, and another one waits, the one of these that said nothing
// for longest makes room; one that attached nowhere, and so is of no use, before
// all others.

const (
	silence   = 10 * time.Second // how long a client may at least say nothing
	lookEvery = time.Second / 10 // while one waits for a place
)

var epoch = time.Now()

var errGaveWay = errors.New("it had no file open and said nothing, and another waited for its place")

// Places are a server's connections.
type places struct {
	mu   sync.Mutex // guards what follows
	here map[*conn]bool
	out  *conn // the one that makes room
}

func (w *places) enter(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.here == nil {
		w.here = map[*conn]bool{}
	}
	w.here[c] = true
}

// leave says whether c made room for another.
func (w *places) leave(c *conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.here, c)
	out := w.out == c
	if out {
		w.out = nil
	}
	return out
}

// await waits for a place, and says whether there is one: not when ctx ends.
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

// makeRoom ends a connection, if there is one that can be spared.
func (s *Server) makeRoom() {
	w := &s.places
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.out != nil { // it is about to end
		return
	}
	last := int64(time.Since(epoch) - cmp.Or(s.silence, silence))
	var attached bool
	for c := range w.here {
		if c.heard.Load() > last {
			continue
		}
		has, busy := c.uses()
		if !busy && (w.out == nil || !has && attached || has == attached && c.heard.Load() < w.out.heard.Load()) {
			w.out, attached = c, has
		}
	}
	if w.out != nil {
		w.out.rw.Close()
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
