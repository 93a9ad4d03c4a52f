package guest

import (
	"context"
	"sync"
	"time"

	"hutch/fs/node"
)

// ahead is what is known of a directory's files because it was listed:
// programs that list a directory look at its files next, one by one, in that
// order. Each look is two round trips to the guest; many at the same time
// cost hardly more than one.
type ahead struct {
	looking sync.Mutex // held while files are looked at; guards what follows
	names   []string   // of the last listing, from the next that will be looked at on
	known   map[string]sight
}

// window is how many files are looked at together.
const window = 32

// listed begins anew with a listing.
func (a *ahead) listed(list []node.Entry) {
	a.looking.Lock()
	defer a.looking.Unlock()
	a.names, a.known = nil, nil
	for _, e := range list {
		a.names = append(a.names, e.Name)
	}
}

// stat returns what the file called name of the directory dir is like. If it
// is the next of the listing, those after it are looked at too. Nobody waits
// for the looks of another, which a guest can hold up.
func (a *ahead) stat(ctx context.Context, dir *rootNode, name string) (node.Stat, error) {
	if !a.looking.TryLock() {
		return dir.child(name).look(ctx)
	}
	if s, ok := a.known[name]; ok {
		delete(a.known, name)
		a.looking.Unlock()
		if time.Since(s.at) < keep {
			return s.st, nil
		}
		return dir.child(name).look(ctx)
	}
	if len(a.names) == 0 || a.names[0] != name {
		a.looking.Unlock()
		return dir.child(name).look(ctx)
	}
	defer a.looking.Unlock()
	return a.fetch(ctx, dir)
}

// fetch looks at the next names, and returns what the first is like.
func (a *ahead) fetch(ctx context.Context, dir *rootNode) (node.Stat, error) {
	names := a.names[:min(window, len(a.names))]
	a.names, a.known = a.names[len(names):], make(map[string]sight, len(names))
	stats, errs := make([]node.Stat, len(names)), make([]error, len(names))
	var looks sync.WaitGroup
	for i, name := range names {
		looks.Go(func() { stats[i], errs[i] = dir.child(name).look(ctx) })
	}
	looks.Wait()
	now := time.Now()
	for i, name := range names[1:] {
		if errs[i+1] == nil {
			a.known[name] = sight{now, stats[i+1]}
		}
	}
	return stats[0], errs[0]
}
