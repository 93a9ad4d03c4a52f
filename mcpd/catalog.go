package mcpd

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hutch/aggd/child"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// Servers named in the ledger and the tree that are not external ones.
const (
	builtinServer = "builtin" // wire.Local: tools of hutch's own that use the network
	fileServer    = "file"    // the workspace
)

// An item is a tool, resource, template or prompt of some server. Raw is the
// server's own object, with Name in the place of its own name.
type item struct {
	Name     string // as the guest sees it: server__name or capsem://server/uri
	Server   string // as the ledger names it
	Original string // as the server knows it
	Raw      json.RawMessage
	upstream string // as the aggregator knows the server; "" for the workspace
}

// catalogs are what all servers offer, for each set of client capabilities.
type catalogs struct {
	e *Endpoint

	// mu guards the map.
	mu    sync.Mutex
	byKey map[string]*catalog
}

// A catalog is what all servers offer to clients of the same capabilities.
type catalog struct {
	tools, resources, templates, prompts shelf
}

func (c *catalog) shelves() [4]*shelf {
	return [...]*shelf{&c.tools, &c.prompts, &c.resources, &c.templates}
}

func (cs *catalogs) init(e *Endpoint) {
	cs.e = e
	cs.byKey = make(map[string]*catalog)
}

// of returns the catalog for a key.
func (cs *catalogs) of(key string) *catalog {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.byKey[key]
	if c == nil {
		c = newCatalog(key)
		c.tools.own, c.tools.hides = cs.e.ownTools(), cs.e.hides
		cs.byKey[key] = c
	}
	return c
}

func newCatalog(key string) *catalog {
	c := &catalog{}
	c.tools.init("tools", fetch(wire.Tools, key, "name"))
	c.resources.init("resources", fetch(wire.Resources, key, "uri"))
	c.templates.init("resourceTemplates", fetch(wire.Templates, key, "uriTemplate"))
	c.prompts.init("prompts", fetch(wire.Prompts, key, "name"))
	return c
}

// empty takes the servers' part out of every list.
func (cs *catalogs) empty() {
	cs.each("", func(c *catalog) {
		c.forget("")
		for _, s := range c.shelves() {
			s.held.Store(nil)
		}
	})
}

// each calls f with the catalog of key, or with all of them.
func (cs *catalogs) each(key string, f func(*catalog)) {
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
func (c *catalog) forget(method string) {
	switch method {
	case toolsChanged:
		c.tools.gen.Add(1)
	case promptsChanged:
		c.prompts.gen.Add(1)
	case resourcesChanged:
		c.resources.gen.Add(1)
		c.templates.gen.Add(1)
	default:
		for _, s := range c.shelves() {
			s.gen.Add(1)
		}
	}
}

// A shelf keeps one list until it changes.
type shelf struct {
	field string
	own   []item           // what is there without any server
	hides func(*item) bool // what is there and not shown; nil: nothing
	fetch fetcher
	turn  chan struct{} // holds one token while the list is being fetched
	gen   atomic.Uint64 // counts the changes
	held  atomic.Pointer[stock]
}

// A stock is a list as it was fetched.
type stock struct {
	gen    uint64
	at     time.Time
	items  []item
	index  map[string]*item
	result json.RawMessage // of the list request
}

func (s *shelf) init(field string, fetch fetcher) {
	s.field, s.fetch, s.turn = field, fetch, make(chan struct{}, 1)
}

// get returns the list as it is now.
func (s *shelf) get(ctx context.Context, e *Endpoint) (*stock, *Error) {
	if held := s.held.Load(); held != nil && held.gen == s.gen.Load() {
		return held, nil
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ended(ctx)
	}
	defer func() { <-s.turn }()
	gen := s.gen.Load()
	if held := s.held.Load(); held != nil && held.gen == gen {
		return held, nil
	}
	var list []item
	c, err := e.child()
	if err == nil {
		list, err = s.fetch(ctx, c)
	}
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	if err != nil {
		e.cfg.Log.Debug("catalog", "vm", e.cfg.VM(), "list", s.field, "err", err)
		return s.stock(gen, nil), nil
	}
	fetched := s.stock(gen, list)
	s.held.Store(fetched)
	if e.aggregator.Load() != c { // it was stopped meanwhile, and the shelf emptied
		s.held.Store(nil)
	}
	return fetched, nil
}

// last returns the list as it was fetched last, however long ago; if it never
// was, it is now.
func (s *shelf) last(ctx context.Context, e *Endpoint) (*stock, *Error) {
	if held := s.held.Load(); held != nil {
		return held, nil
	}
	return s.get(ctx, e)
}

// memory returns what is known of the list without asking anybody.
func (s *shelf) memory() []item {
	if held := s.held.Load(); held != nil {
		return held.items
	}
	return s.own
}

// staleAfter is the age of a list at which it is fetched anew before a name is
// said not to be in it: the news of a change may be on its way.
const staleAfter = 100 * time.Millisecond

// find returns the item of that name, or nil.
func (s *shelf) find(ctx context.Context, e *Endpoint, name string) (*item, *Error) {
	if held := s.held.Load(); held != nil {
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

// since is find for a name of a server that has been listed by now: a list with
// nothing of it came too early.
func (s *shelf) since(ctx context.Context, e *Endpoint, server, name string) (*item, *Error) {
	if held := s.held.Load(); held != nil && !slices.ContainsFunc(held.items, func(it item) bool { return it.upstream == server }) {
		s.gen.CompareAndSwap(held.gen, held.gen+1)
	}
	now, err := s.get(ctx, e)
	if err != nil {
		return nil, err
	}
	return now.index[name], nil
}

func (s *shelf) stock(gen uint64, list []item) *stock {
	list = append(slices.Clip(s.own), list...)
	slices.SortStableFunc(list, func(a, b item) int { return cmp.Compare(a.Name, b.Name) })
	st := &stock{gen: gen, at: time.Now(), items: list, index: make(map[string]*item, len(list))}
	b := append([]byte(`{`), quote(s.field)...)
	b = append(b, `:[`...)
	shown := 0
	for i := range list {
		st.index[list[i].Name] = &list[i]
		if s.hides != nil && s.hides(&list[i]) {
			continue
		}
		if shown++; shown > 1 {
			b = append(b, ',')
		}
		b = append(b, list[i].Raw...)
	}
	st.result = append(b, `]}`...)
	return st
}

// A fetcher gets a list from the aggregator.
type fetcher func(ctx context.Context, c *child.Child) ([]item, error)

// fetch makes a fetcher of one of the aggregator's lists, as clients of that
// key see it, with each item's name for the guest in its member of that name.
func fetch(list wire.List, key, member string) fetcher {
	return func(ctx context.Context, c *child.Child) ([]item, error) {
		found, err := c.List(ctx, list, key)
		items := make([]item, 0, len(found))
		for _, it := range found {
			raw, err := rawjson.SetString(it.Raw, it.Name, member)
			if err != nil {
				continue // no object, or one without a name: no client could use it
			}
			items = append(items, item{Name: it.Name, Server: ledgerName(it.Server), Original: it.Original, Raw: raw, upstream: it.Server})
		}
		return items, err
	}
}

func (e *Endpoint) ownTools() []item {
	var list []item
	for _, t := range e.work.Tools() {
		list = append(list, item{Name: t.Name, Original: t.Name, Server: fileServer, Raw: t.Raw})
	}
	return list
}
