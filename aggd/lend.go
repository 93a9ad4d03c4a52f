package aggd

import (
	"context"
	"maps"
	"slices"
	"time"

	"hutch/aggd/wire"
)

// items returns a list of the server for the clients of u. If u has none in a moment,
// they get the list of another connection: nobody waits long for one more program to
// start, and most are there by then, for clients that ask once.
func (s *server) items(ctx context.Context, u *upstream, l *wire.List) [][]byte {
	if !u.gives(l) && s.lender(u, l) != nil {
		u.awaitList(ctx, l)
		if _, ok := u.filled(l); !ok {
			if lent, there := s.lend(u, l); there {
				return lent
			}
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

// awaitList waits a moment for the list of u, unless u has borrowed one since it last had
// its own.
func (u *upstream) awaitList(ctx context.Context, l *wire.List) {
	u.mu.Lock()
	borrowed := !u.lent.IsZero()
	u.mu.Unlock()
	if borrowed {
		return
	}
	if wait, _ := u.startFetch(l); wait != nil {
		pause(listMoment, wait, ctx.Done())
	}
}

// lender returns another connection than u that has a list, or nil: first that for
// clients without capabilities.
func (s *server) lender(u *upstream, l *wire.List) *upstream {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.ups)) {
		if _, ok := s.ups[key].filled(l); ok && s.ups[key] != u {
			return s.ups[key]
		}
	}
	return nil
}

// lend returns a list as another connection has it, for the clients of u.
func (s *server) lend(u *upstream, l *wire.List) ([][]byte, bool) {
	from := s.lender(u, l)
	if from == nil {
		return nil, false
	}
	items, _ := from.filled(l)
	u.borrow(l, items)
	return items, true
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
