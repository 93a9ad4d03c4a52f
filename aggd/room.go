package aggd

import (
	"cmp"
	"slices"
)

// maxKept is how many bytes the lists may take that are kept for clients which declared
// capabilities, beside those that are being asked for.
const maxKept = 64 << 20

// makeRoom drops the lists of the connections that fetched theirs longest ago while all
// take too much; they are fetched again when they are asked for. Those of connections
// for clients without capabilities stay.
func (a *aggregator) makeRoom() {
	type holder struct {
		*upstream
		fetched int64 // as it was read: it changes meanwhile
	}
	var all []holder
	size := int64(0)
	for _, s := range a.set.Load().order {
		s.mu.Lock()
		for client, u := range s.ups {
			if client != "" {
				all = append(all, holder{u, u.fetched.Load()})
				size += u.kept.Load()
			}
		}
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(x, y holder) int { return cmp.Compare(x.fetched, y.fetched) })
	for _, u := range all {
		if size <= maxKept {
			return
		}
		size -= u.dropLists()
	}
}

// dropLists drops the lists, unless they are being asked for, and returns how much
// memory they took. When they are there again, the host is told of them as if they had
// changed, for nobody knows whether they have.
func (u *upstream) dropLists() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.asking.Load() > 0 {
		return 0
	}
	for _, s := range u.lists {
		s.items, s.given, s.filled, s.fresh = nil, nil, false, false
	}
	return u.kept.Swap(0)
}

// keep puts the items of a list in the place of those that it had; mu is held.
func (u *upstream) keep(s *cachedList, items [][]byte) {
	u.kept.Add(cost(items) - cost(s.items))
	u.fetched.Store(u.agg.fetches.Add(1))
	s.items, s.filled = items, true
}

// cost returns how much memory items take.
func cost(items [][]byte) (size int64) {
	for _, raw := range items {
		size += int64(len(raw)) + 24
	}
	return size
}

// compact returns the items with nothing of what came with them.
func compact(items [][]byte) [][]byte {
	text := slices.Concat(items...)
	for i, raw := range items {
		items[i], text = text[:len(raw):len(raw)], text[len(raw):]
	}
	return slices.Clip(items)
}
