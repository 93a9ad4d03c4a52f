package guest

import (
	"context"
	"errors"
	"slices"
	"time"

	"hutch/fs/node"
)

// NewHost returns the client of a host, for a guest that mounts its folders.
// A host may be away, while hutchd is started anew or the machine suspended;
// what is asked of it waits until it is back, or its context ends, and is
// asked again. Of a change that is asked for twice it is no error if the
// first has made it.
func NewHost() *Guest {
	g := New()
	g.limit, g.host = patience, true
	return g
}

// patience is how long a host may take, if nobody interrupts it.
const patience = 24 * time.Hour

// Share returns the folder called name that the host serves.
func (g *Guest) Share(name string) node.Node { return &rootNode{g: g, path: []string{name}} }

// mark gives a host's file, which is a stored one, a version: it changes when
// the file does.
func (g *Guest) mark(st node.Stat) node.Stat {
	if g.host {
		st.Vers = uint32(st.Mtime.UnixNano()>>10) ^ uint32(st.Size) | 1
	}
	return st
}

// change does f, which changes something, once; or, for a host, as often as
// it takes to know that it was done.
func (g *Guest) change(ctx context.Context, moot error, f func(context.Context, *conn) error) error {
	for again := false; ; again = true {
		err := g.once(ctx, f)
		switch {
		case again && moot != nil && errors.Is(err, moot):
			return nil
		case !g.host || !errors.Is(err, errLost):
			return err
		}
	}
}

// remember notes that a file of the host is open, so that it is found again
// under a new name.
func (g *Guest) remember(f *file) {
	if !g.host {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[f] = true
}

func (g *Guest) forget(f *file) {
	if !g.host {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, f)
}

// moved notes that what was at from, and below, is at to now.
func (g *Guest) moved(from, to []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for f := range g.open {
		f.mu.Lock()
		if n := len(from); len(f.path) >= n && slices.Equal(f.path[:n], from) {
			f.path = slices.Concat(to, f.path[n:])
		}
		f.mu.Unlock()
	}
}

// Stat describes the open file, wherever it is now, and if it is nowhere.
func (f *file) Stat(ctx context.Context) (node.Stat, error) {
	ctx, cancel := f.g.limited(ctx)
	defer cancel()
	n, fid, err := f.bind(ctx)
	if err != nil {
		return node.Stat{}, err
	}
	st, err := n.stat(ctx, fid, f.name())
	return f.g.mark(st), err
}

func (f *file) name() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.path[len(f.path)-1]
}
