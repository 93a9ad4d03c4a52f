package aggd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// A kind is one of the lists that a server has.
type kind struct {
	index      int
	list       wire.List // as the host has it
	own        string    // the member that its items are known by
	method     string
	field      string // of the result
	capability string // without which there is no list
	changed    string // the notification that it changed
}

var (
	tools     = &kind{0, wire.Tools, "name", "tools/list", "tools", "tools", "notifications/tools/list_changed"}
	resources = &kind{1, wire.Resources, "uri", "resources/list", "resources", "resources", "notifications/resources/list_changed"}
	templates = &kind{2, wire.Templates, "uriTemplate", "resources/templates/list", "resourceTemplates", "resources", "notifications/resources/list_changed"}
	prompts   = &kind{3, wire.Prompts, "name", "prompts/list", "prompts", "prompts", "notifications/prompts/list_changed"}
)

var kinds = [...]*kind{tools, resources, templates, prompts}

// A cachedList keeps one list of an upstream.
type cachedList struct {
	items  [][]byte
	filled bool // items were fetched, now or once
	fresh  bool // nothing has changed since
	epoch  int  // counts the changes the server told of
	err    error
	fetch  chan struct{} // closed when the fetch under way ends; nil if none is
	told   bool          // the host was given this list
	given  [][]byte      // as it was then
}

// maxPages guards against a server whose list never ends.
const maxPages = 1000

// invalidate notes that a list changed.
func (u *upstream) invalidate(k *kind) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lists[k.index].fresh = false
	u.lists[k.index].epoch++
}

// items returns a list of the server. It waits for a server that is starting and
// for a list to be fetched, but not past the end of ctx, and for a server that
// was late once not at all.
func (u *upstream) items(ctx context.Context, k *kind) [][]byte {
	for range 2 {
		wait, begun := u.startFetch(k)
		if wait == nil || !u.await(ctx, wait) || begun {
			break
		}
		// The fetch was under way before: what it brought may miss a change
		// that the host was told of, and asks about.
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	s := &u.lists[k.index]
	s.told, s.given = true, s.items
	return s.items
}

// await waits for a fetch. If ctx ends before, the server is late.
func (u *upstream) await(ctx context.Context, fetched <-chan struct{}) bool {
	select {
	case <-fetched:
		return true
	case <-ctx.Done():
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.late = true
	return false
}

// startFetch has a list fetched if it needs to be, and returns what to wait for, and
// whether that begins now.
func (u *upstream) startFetch(k *kind) (wait <-chan struct{}, begun bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := &u.lists[k.index]
	switch {
	case s.fetch != nil:
	case u.state == wire.Connected && s.fresh, u.state != wire.Connected && s.filled:
		return nil, false
	case u.state == wire.Failed:
		if u.lazy {
			u.wakeRun()
		}
		return nil, false
	default:
		begun = true
		s.fetch = make(chan struct{})
		u.agg.tasks.Go(func() { u.connectAndFetch(k) })
	}
	if u.late {
		return nil, false
	}
	return s.fetch, begun
}

// connectAndFetch fetches a list, connecting first where there is no connection.
func (u *upstream) connectAndFetch(k *kind) {
	limit := 2 * u.def.connectTimeout()
	ctx, cancel := context.WithTimeoutCause(context.Background(), limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	c, err := u.acquire(ctx)
	if err == nil {
		u.fetch(ctx, c, k)
		u.release()
	}
	u.mu.Lock()
	s := &u.lists[k.index]
	close(s.fetch)
	s.fetch = nil
	late := u.late
	if err == nil && s.err == nil {
		u.late = false
	}
	u.mu.Unlock()
	if late {
		u.tellChanges()
	}
}

// fetchAll fetches all lists of a new connection.
func (u *upstream) fetchAll(ctx context.Context, c *conn) {
	u.mu.Lock()
	for i := range u.lists {
		u.lists[i].fresh = false
	}
	u.mu.Unlock()
	var all sync.WaitGroup
	for _, k := range kinds {
		all.Go(func() { u.fetch(ctx, c, k) })
	}
	all.Wait()
}

// fetch fetches a list unless it is fresh.
func (u *upstream) fetch(ctx context.Context, c *conn, k *kind) {
	u.mu.Lock()
	s := &u.lists[k.index]
	fresh, epoch, offered := s.fresh, s.epoch, u.session.offers(k.capability)
	u.mu.Unlock()
	if fresh {
		return
	}
	var items [][]byte
	var err error
	if offered {
		items, err = u.pages(ctx, c, k)
	}
	if err != nil {
		u.logf("%v", err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	s.err = err
	if err != nil {
		return
	}
	s.items, s.filled, s.fresh = items, true, epoch == s.epoch
}

// pages fetches a list page by page.
func (u *upstream) pages(ctx context.Context, c *conn, k *kind) ([][]byte, error) {
	var items [][]byte
	var params []byte
	seen := make(map[string]bool)
	size := 0
	for range maxPages {
		o := c.call(ctx, nil, u.client, k.method, params)
		if err := o.failure(); err != nil {
			var refused *jsonrpc.Error
			if errors.As(err, &refused) && refused.Code == jsonrpc.CodeMethod {
				return items, nil
			}
			return nil, fmt.Errorf("%s: %w", k.method, err)
		}
		items = append(items, rawjson.Elements(rawjson.Get(o.result, k.field))...)
		if size += len(o.result); size > u.agg.cfg.MaxResult {
			return nil, fmt.Errorf("%s: over the limit of %d bytes", k.method, u.agg.cfg.MaxResult)
		}
		cursor := rawjson.Get(o.result, "nextCursor")
		if rawjson.String(cursor) == "" {
			return items, nil
		}
		if seen[string(cursor)] {
			return nil, fmt.Errorf("%s: the server repeats the cursor %.40s", k.method, cursor)
		}
		seen[string(cursor)] = true
		params = fmt.Appendf(nil, `{"cursor":%s}`, cursor)
	}
	return nil, fmt.Errorf("%s: %w", k.method, errors.New("more than 1000 pages"))
}

// tellChanges tells the host of lists that are not as it was given them last.
func (u *upstream) tellChanges() {
	told := make(map[string]bool)
	for _, k := range kinds {
		u.mu.Lock()
		s := &u.lists[k.index]
		news := s.told && s.filled && !slices.EqualFunc(s.items, s.given, bytes.Equal)
		u.mu.Unlock()
		if news && !told[k.changed] {
			told[k.changed] = true
			u.agg.tell("notification", 0, u.client, u.name, k.changed, nil, nil)
		}
	}
}

// listWait is how long a list waits for servers that are late.
const listWait = 5 * time.Second
