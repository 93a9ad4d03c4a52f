package mcpd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hutch/aggd/child"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// builtinServer is what the ledger and the tree call wire.Local.
const builtinServer = "builtin"

// catalogs are what all servers offer, for each set of client capabilities.
type catalogs struct {
	e *Endpoint

	turns chan struct{} // holds a token for each list that is being fetched

	mu    sync.Mutex // guards what follows
	byKey map[string]catalog
	order []string // the keys of byKey, asked for longest ago first
}

// What lists take.
const (
	maxFetching = 4        // of a VM that are fetched at once: one may be long
	maxKept     = 64 << 20 // bytes of those that are kept for clients with capabilities, beside the last
	itemCost    = 200      // bytes that an item takes beside its text
)

// A catalog is what all servers offer to clients of the same capabilities.
type catalog map[*wire.List]*shelf

// of returns the catalog for a key.
func (cs *catalogs) of(key string) catalog {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.order = append(slices.DeleteFunc(cs.order, func(k string) bool { return k == key }), key)
	c := cs.byKey[key]
	if c == nil {
		c = make(catalog)
		for _, l := range wire.Lists {
			c[l] = &shelf{list: l, fetch: cs.fetcher(l, key), turn: make(chan struct{}, 1)}
		}
		tools := c[wire.Tools]
		tools.own, tools.hides = cs.e.ownTools(), cs.e.hides
		tools.alone = tools.stock(0, nil, nil)
		cs.byKey[key] = c
	}
	return c
}

// makeRoom forgets the lists of clients that asked for them longest ago while all that
// are kept take too much. Those for clients without capabilities, which the tree
// shows, stay, and so do the last.
func (cs *catalogs) makeRoom() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	size := 0
	for key, c := range cs.byKey {
		if key != "" {
			size += c.size()
		}
	}
	last := cs.order[len(cs.order)-1]
	cs.order = slices.DeleteFunc(cs.order, func(key string) bool {
		old := size > maxKept && key != "" && key != last
		if old {
			size -= cs.byKey[key].size()
			delete(cs.byKey, key)
		}
		return old
	})
}

// size returns how many bytes the lists take.
func (c catalog) size() (n int) {
	for _, s := range c {
		if held := s.held.Load(); held != nil {
			n += len(held.result) + held.apart + itemCost*len(held.items)
		}
	}
	return n
}

// empty takes the servers' part out of every list.
func (cs *catalogs) empty() {
	cs.each("", func(c catalog) {
		c.forget("")
		for _, s := range c {
			s.held.Store(nil)
		}
	})
}

// each calls f with the catalog of key, or with all of them.
func (cs *catalogs) each(key string, f func(catalog)) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for k, c := range cs.byKey {
		if key == "" || k == key {
			f(c)
		}
	}
}

// forget makes the lists be fetched anew that a list_changed notification of
// that method is about; all of them, if it is of none.
func (c catalog) forget(method string) {
	for _, s := range c {
		if method == "" || method == s.list.Changed {
			s.gen.Add(1)
		}
	}
}

// A shelf keeps one list until it changes.
type shelf struct {
	list  *wire.List
	own   []wire.Item           // what is there without any server
	alone *stock                // of that; nil: there is nothing
	hides func(*wire.Item) bool // what is there and not shown; nil: nothing
	fetch func(context.Context, *child.Child, *Arrange) ([]wire.Item, error)
	turn  chan struct{} // holds one token while the list is being fetched
	gen   atomic.Uint64 // counts the changes
	held  atomic.Pointer[stock]
}

// A stock is a list as it was fetched.
type stock struct {
	gen    uint64
	by     *Arrange // that named the items; nil: they have the names that tell servers apart
	at     time.Time
	items  []wire.Item
	index  map[string]*wire.Item
	result json.RawMessage // of the list request
	apart  int             // bytes of what servers say of tools that are held back
}

// get returns the list as it is now.
func (s *shelf) get(ctx context.Context, e *Endpoint) (*stock, *Error) {
	if held := s.kept(e); held != nil && held.gen == s.gen.Load() {
		return held, nil
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ended(ctx)
	}
	defer func() { <-s.turn }()
	gen, by := s.gen.Load(), e.arrange.Load()
	if held := s.kept(e); held != nil && held.gen == gen {
		return held, nil
	}
	var list []wire.Item
	c, err := e.child()
	if err == nil {
		list, err = s.fetch(ctx, c, by)
	}
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	if err != nil {
		e.cfg.Log.Debug("catalog", "vm", e.cfg.VM(), "list", s.list.MCP, "err", err)
		return s.stock(gen, by, e.composed(s.list, nil)), nil
	}
	fetched := s.stock(gen, by, list)
	s.held.Store(fetched)
	e.catalogs.makeRoom()
	if e.aggregator.Load() != c { // it was stopped meanwhile, and the shelf emptied
		s.held.Store(nil)
	}
	return fetched, nil
}

// kept returns the list as it was fetched last, nil if it never was, or its names are
// others now.
func (s *shelf) kept(e *Endpoint) *stock {
	if held := s.held.Load(); held != nil && held.by == e.arrange.Load() {
		return held
	}
	return nil
}

// last returns the list as it was fetched last, however long ago; if it never
// was, it is now.
func (s *shelf) last(ctx context.Context, e *Endpoint) (*stock, *Error) {
	if held := s.kept(e); held != nil {
		return held, nil
	}
	return s.get(ctx, e)
}

// known returns what is known of the list that the tree shows without asking a
// server: until it was fetched, what those have said that are not late.
func (s *shelf) known(e *Endpoint) *stock {
	if held := s.kept(e); held != nil {
		return held
	}
	by := e.arrange.Load()
	var found []wire.Item
	if c := e.aggregator.Load(); c != nil {
		ctx, cancel := context.WithTimeout(e.ctx, statusTime)
		defer cancel()
		found, _ = c.Kept(ctx, s.list, "")
	}
	return s.stock(0, by, e.offered(s.list, by, found))
}

// shows says whether the policy lets the agent know of an item.
func (s *shelf) shows(it *wire.Item) bool { return s.hides == nil || !s.hides(it) }

// staleAfter is the age of a list at which it is fetched anew before a name is
// said not to be in it: the news of a change may be on its way.
const staleAfter = 100 * time.Millisecond

// schema returns what a tool takes that is there without any server.
func (s *shelf) schema(name string) []byte {
	if it := s.alone.index[name]; it != nil {
		return it.Schema
	}
	return nil
}

// find returns the item of that name, or nil.
func (s *shelf) find(ctx context.Context, e *Endpoint, name string) (*wire.Item, *Error) {
	if held := s.kept(e); held != nil {
		if it := held.index[name]; it != nil {
			return it, nil
		}
		if time.Since(held.at) > staleAfter {
			s.gen.CompareAndSwap(held.gen, held.gen+1)
		}
	}
	now, err := s.get(ctx, e)
	if err != nil {
		return nil, err
	}
	return now.index[name], nil
}

// renew has a list fetched anew that has no tool of a server which has been listed
// by now: it came too early.
func (s *shelf) renew(server string) {
	if held := s.held.Load(); held != nil && !slices.ContainsFunc(held.items, func(it wire.Item) bool { return it.Server == server }) {
		s.gen.CompareAndSwap(held.gen, held.gen+1)
	}
}

func (s *shelf) stock(gen uint64, by *Arrange, list []wire.Item) *stock {
	list = slices.Concat(s.own, list) // own is shared, and what follows writes
	slices.SortStableFunc(list, func(a, b wire.Item) int { return cmp.Compare(a.Name, b.Name) })
	if by != nil {
		list = slices.CompactFunc(list, func(a, b wire.Item) bool { return a.Name == b.Name })
	}
	st := &stock{gen: gen, by: by, at: time.Now(), items: list, index: make(map[string]*wire.Item, len(list))}
	size := 64
	for i := range list {
		size += len(list[i].Raw) + 1
	}
	b := fmt.Appendf(make([]byte, 0, size), `{%q:[`, s.list.Result)
	shown := 0
	for i := range list {
		it := &list[i]
		switch {
		case it.Held != nil:
			it.Raw = it.Held.Said // so that it is there once
			st.apart += len(it.Raw)
		case s.shows(it):
			if shown++; shown > 1 {
				b = append(b, ',')
			}
			b = append(b, it.Raw...)
			it.Raw = b[len(b)-len(it.Raw) : len(b) : len(b)] // so that it is there once
		}
		if s.list == wire.Tools {
			it.Schema = rawjson.Get(it.Raw, "inputSchema")
		}
	}
	st.result = append(b, `]}`...)
	st.enter(s.list)
	return st
}

// fetcher returns what gets a list from the aggregator, as clients of that key
// see it.
func (cs *catalogs) fetcher(list *wire.List, key string) func(context.Context, *child.Child, *Arrange) ([]wire.Item, error) {
	return func(ctx context.Context, c *child.Child, by *Arrange) ([]wire.Item, error) {
		select {
		case cs.turns <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		defer func() { <-cs.turns }()
		found, err := c.List(ctx, list, key)
		return cs.e.offered(list, by, found), err
	}
}

// guestItems returns items with each one's name for the guest in the place of its own.
func guestItems(list *wire.List, by *Arrange, found []wire.Item) []wire.Item {
	if by != nil {
		found = (*by)(list, found)
	}
	items := make([]wire.Item, 0, len(found))
	for _, it := range found {
		raw, err := rawjson.SetString(it.Raw, it.Name, list.Own)
		if err != nil {
			continue // no object, or one without a name: no client could use it
		}
		it.Raw = raw
		items = append(items, it)
	}
	return items
}
