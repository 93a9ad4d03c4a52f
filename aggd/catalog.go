package aggd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// A cachedList keeps one list of an upstream.
type cachedList struct {
	items  [][]byte
	filled bool // items were fetched, now or once
	fresh  bool // nothing has changed since
	epoch  int  // counts the changes the server told of
	err    error
	left   []string      // what is left out of items, and why
	fetch  chan struct{} // closed when the fetch under way ends; nil if none is
	told   bool          // the host was given this list
	given  [][]byte      // as it was then
	turn   chan struct{} // holds a token: whoever has it asks the server
}

func newLists() map[*wire.List]*cachedList {
	lists := make(map[*wire.List]*cachedList)
	for _, l := range wire.Lists {
		lists[l] = &cachedList{turn: make(chan struct{}, 1)}
	}
	return lists
}

// What a list of a server may have, beside so many bytes as a message may.
const (
	maxPages = 1000
	maxItems = 100_000
	maxLeft  = 8 // are told of one by one that are left out
)

// invalidate notes that a list changed.
func (u *upstream) invalidate(l *wire.List) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lists[l].fresh = false
	u.lists[l].epoch++
}

// items returns a list of the server. It waits for a server that is starting and
// for a list to be fetched, but not past the end of ctx, and for a server that
// was late once not at all.
func (u *upstream) items(ctx context.Context, l *wire.List) [][]byte {
	u.asking.Add(1)
	defer u.asking.Add(-1)
	for range 2 {
		wait, begun := u.startFetch(l)
		if wait == nil || !u.await(ctx, wait) || begun {
			break
		}
		// The fetch was under way before: what it brought may miss a change
		// that the host was told of, and asks about.
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.lists[l]
	s.told, s.given = true, s.items
	return s.items
}

// has returns what is kept of a list, without asking the server.
func (u *upstream) has(l *wire.List) [][]byte {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.lists[l].items
}

// await waits for a fetch. If ctx ends before, the server is late.
func (u *upstream) await(ctx context.Context, fetched <-chan struct{}) bool {
	select {
	case <-fetched:
		return true
	case <-ctx.Done():
	}
	u.setLate(true)
	return false
}

func (u *upstream) setLate(late bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.late = late
}

// startFetch has a list fetched if it needs to be, and returns what to wait for, and
// whether that begins now.
func (u *upstream) startFetch(l *wire.List) (wait <-chan struct{}, begun bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.lists[l]
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
		u.agg.tasks.Go(func() { u.connectAndFetch(l) })
	}
	if u.late {
		return nil, false
	}
	return s.fetch, begun
}

// connectAndFetch fetches a list, connecting first where there is no connection.
func (u *upstream) connectAndFetch(l *wire.List) {
	limit := 2 * u.def.connectTimeout()
	ctx, cancel := context.WithTimeoutCause(context.Background(), limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	err := u.fetchLive(ctx, l)
	u.mu.Lock()
	s := u.lists[l]
	close(s.fetch)
	s.fetch = nil
	late := u.late || !u.lent.IsZero()
	if err == nil && s.err == nil {
		u.late, u.lent = false, time.Time{}
	}
	u.mu.Unlock()
	if late {
		u.tellChanges()
	}
}

// fetch fetches a list unless it is fresh.
func (u *upstream) fetch(ctx context.Context, c *conn, l *wire.List) {
	s := u.lists[l]
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return
	}
	u.mu.Lock()
	fresh, epoch, offered, was := s.fresh, s.epoch, u.session.offers(l.Capability), s.err
	u.mu.Unlock()
	if fresh {
		return
	}
	var items [][]byte
	var err error
	if offered {
		items, err = u.pages(ctx, c, l)
	}
	if err != nil {
		if was == nil || was.Error() != err.Error() { // it is asked again and again
			u.logf("%v", err)
		}
		select {
		case u.lacks <- struct{}{}:
		default:
		}
	}
	items, left := sound(l, items, c.stateless.Load())
	var headers map[string][]headerParam
	if _, http := c.transport.(*streamable); http && l == wire.Tools && c.stateless.Load() {
		items, headers, left = headed(items, left)
	}
	items = compact(items)
	u.mu.Lock()
	if s.err = err; err == nil {
		u.leave(s, left)
		u.keep(s, items)
		s.fresh = epoch == s.epoch
		if l == wire.Tools {
			u.headers = headers
		}
	}
	u.mu.Unlock()
	u.agg.makeRoom()
}

// pages fetches a list page by page.
func (u *upstream) pages(ctx context.Context, c *conn, l *wire.List) ([][]byte, error) {
	var items [][]byte
	var params []byte
	seen := make(map[string]bool)
	size := 0
	for range maxPages {
		o := c.call(ctx, nil, u.client, l.MCP, params)
		if err := o.failure(); err != nil {
			var refused *jsonrpc.Error
			if errors.As(err, &refused) && refused.Code == jsonrpc.CodeMethod {
				return items, nil
			}
			return nil, fmt.Errorf("%s: %w", l.MCP, err)
		}
		if size += len(o.result); size > u.agg.maxResult() {
			return nil, fmt.Errorf("%s: over the limit of %d bytes", l.MCP, u.agg.maxResult())
		}
		page := rawjson.Get(o.result, l.Result)
		if !bytes.HasPrefix(page, []byte("[")) && string(page) != "null" { // some write null for an empty one
			return nil, fmt.Errorf("%s: the answer has no array of %s", l.MCP, l.Result)
		}
		before := len(items)
		for item := range rawjson.Each(page) {
			if items = append(items, item); len(items) > maxItems {
				return nil, fmt.Errorf("%s: more than %d %s", l.MCP, maxItems, l.Field)
			}
		}
		cursor := rawjson.Get(o.result, "nextCursor")
		empty := rawjson.String(cursor) == ""
		switch {
		case empty && !(c.stateless.Load() && rawjson.IsString(cursor)):
			return items, nil
		case empty && seen[string(cursor)]: // it stands for the end after all
			return items[:before], nil
		case seen[string(cursor)]:
			return nil, fmt.Errorf("%s: the server repeats the cursor %.40s", l.MCP, cursor)
		}
		seen[string(cursor)] = true
		params = fmt.Appendf(nil, `{"cursor":%s}`, cursor)
	}
	return nil, fmt.Errorf("%s: more than %d pages", l.MCP, maxPages)
}

// tellChanges tells the host of lists that are not as it was given them last.
func (u *upstream) tellChanges() {
	told := make(map[string]bool)
	for _, l := range wire.Lists {
		u.mu.Lock()
		s := u.lists[l]
		news := s.told && s.filled && !slices.EqualFunc(s.items, s.given, bytes.Equal)
		u.mu.Unlock()
		if news && !told[l.Changed] {
			told[l.Changed] = true
			u.agg.tell("notification", 0, u.client, u.name, l.Changed, nil, nil)
		}
	}
}

// listWait is how long a list waits for servers that are late.
const listWait = 5 * time.Second
