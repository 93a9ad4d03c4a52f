package guest

import (
	"context"
	"errors"
	"hash/maphash"
	"os"
	"slices"
	"time"

	"hutch/fs"
	"hutch/fs/ninep/client"
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
func (g *Guest) Share(name string) fs.Node { return &rootNode{g: g, path: []string{name}} }

// fresh is how long what is known of a listing's files may be believed. A
// host's change what a program in the guest waits for.
func (g *Guest) fresh() time.Duration {
	if g.host {
		return freshness
	}
	return keep
}

// mark completes what was seen of a file at a time. A host's file, which is a
// stored one, has a version, which changes when the file does; a guest's can
// be believed for the rest of its time.
func (g *Guest) mark(st fs.Stat, at time.Time) fs.Stat {
	if g.host {
		st.Vers = uint32(st.Mtime.UnixNano()>>10) ^ uint32(st.Size) | 1
		st.Qid = g.number(st.Qid)
		return st
	}
	st.Mode, st.Qid, st.Vers = g.shown(st.Mode), g.number(st.Qid), 0
	st.Keep = max(keep-time.Since(at), time.Millisecond)
	return st
}

// number returns the qid in the tree of a guest's file. Guests choose their
// own, and those of two that began alike are the same: clients would take the
// one's file for the other's. A host's have 48 bits.
func (g *Guest) number(qid uint64) uint64 {
	if g.host {
		return (qid ^ qid>>48*0x9e3779b97f) & (1<<48 - 1)
	}
	return 1<<63 | maphash.Comparable(g.seed, qid)
}

// shown returns a file's mode as it is shown. A guest's pipes are sockets: who
// opens a pipe on a mount waits in the kernel for another to open it, and
// grep -r for ever; a socket is refused at once.
func (g *Guest) shown(mode os.FileMode) os.FileMode {
	if !g.host && mode&os.ModeNamedPipe != 0 {
		return mode&^os.ModeNamedPipe | os.ModeSocket
	}
	return mode
}

// change does f, which changes something, once; or, for a host, as often as
// it takes to know that it was done.
func (g *Guest) change(ctx context.Context, moot error, f func(context.Context, *client.Conn) error) error {
	for again := false; ; again = true {
		err := g.once(ctx, f)
		switch {
		case again && moot != nil && errors.Is(err, moot):
			return nil
		case !g.host || !errors.Is(err, client.ErrLost):
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
func (f *file) Stat(ctx context.Context) (fs.Stat, error) {
	if err := f.enter(); err != nil {
		return fs.Stat{}, err
	}
	defer f.leave()
	ctx, cancel := f.g.limited(ctx)
	defer cancel()
	fid, err := f.bind(ctx)
	if err != nil {
		return fs.Stat{}, err
	}
	st, err := fid.Stat(ctx)
	st.Name = f.name()
	return f.g.mark(st, time.Now()), err
}

func (f *file) name() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.path[len(f.path)-1]
}
