package aggd

import (
	"context"
	"maps"
	"slices"
	"time"

	"hutch/aggd/wire"
)

// items returns a list of the server for the clients of u. While u has none, they get
// the list of another connection, so that nobody waits for one more program to start.
func (s *server) items(ctx context.Context, u *upstream, l *wire.List) [][]byte {
	if !u.gives(l) {
		if lent, there := s.lend(u, l); there {
			return lent
		}
	}
	items := u.items(ctx, l)
	if _, ok := u.filled(l); ok || u.client == "" {
		return items
	}
	if first, err := s.upstream(""); err == nil {
		first.items(ctx, l)
	}
	if lent, there := s.lend(u, l); there {
		return lent
	}
	return items
}

// lend returns a list as another connection has it, for the clients of u.
func (s *server) lend(u *upstream, l *wire.List) ([][]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.ups)) { // that for clients without capabilities first
		if items, ok := s.ups[key].filled(l); ok && s.ups[key] != u {
			u.borrow(l, items)
			return items, true
		}
	}
	return nil, false
}

// borrow notes that the host was given the items of another connection, and begins to
// fetch u's own, which the host is told of if they differ.
func (u *upstream) borrow(l *wire.List, items [][]byte) {
	u.mu.Lock()
	s := u.lists[l]
	u.lent, s.told, s.given = time.Now(), true, items
	u.mu.Unlock()
	u.startFetch(l)
}

// filled returns what was fetched of a list, and whether it ever was.
func (u *upstream) filled(l *wire.List) ([][]byte, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.lists[l].items, u.lists[l].filled
}

// gives reports whether u has a list, or can be asked for it and has not failed to
// give it.
func (u *upstream) gives(l *wire.List) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.lists[l].filled || u.state == wire.Connected && u.lists[l].err == nil
}
