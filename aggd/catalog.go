package aggd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/shape"
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

// listMoment is how long a new connection waits for its lists before calls are made.
const listMoment = 2 * time.Second

// errListing is why there is no list yet.
var errListing = errors.New("no answer yet")

// fetchAll fetches all lists of a new connection. What comes late holds up nothing else.
func (u *upstream) fetchAll(ctx context.Context, c *conn) {
	u.mu.Lock()
	for _, s := range u.lists {
		s.fresh = false
	}
	u.mu.Unlock()
	done := make(chan struct{})
	u.agg.tasks.Go(func() {
		defer close(done)
		limit, cancel := context.WithTimeoutCause(context.Background(), u.def.connectTimeout(), u.def.silent())
		defer cancel()
		u.fetchStale(limit, c)
	})
	if !pause(listMoment, done, ctx.Done()) {
		return
	}
	u.mu.Lock()
	for _, l := range wire.Lists {
		if s := u.lists[l]; !s.fresh && s.err == nil {
			s.err = fmt.Errorf("%s: %w", l.MCP, errListing)
		}
	}
	u.mu.Unlock()
	u.agg.tasks.Go(func() {
		<-done
		u.tellChanges()
		u.tellState()
	})
}

// fetchStale fetches the lists that are not as they are now.
func (u *upstream) fetchStale(ctx context.Context, c *conn) {
	var all sync.WaitGroup
	for _, l := range wire.Lists {
		all.Go(func() { u.fetch(ctx, c, l) })
	}
	all.Wait()
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

// sound returns the items of a list that the standard allows, each name once, and what
// is left out: for one of those many clients would refuse the whole list.
func sound(l *wire.List, items [][]byte, newer bool) (good [][]byte, left []string) {
	seen := make(map[string]bool, len(items))
	for _, raw := range items {
		own, err := text(raw, l.Own), shape.Check(l, raw, newer)
		if err == nil && seen[own] {
			err = fmt.Errorf("its server lists another of that %s before", l.Own)
		}
		if err != nil {
			left = append(left, leftOut(l, own, err))
			continue
		}
		seen[own] = true
		good = append(good, raw)
	}
	return good, left
}

func leftOut(l *wire.List, own string, why error) string {
	return fmt.Sprintf("the %s %.60q is left out: %v", strings.TrimSuffix(l.Field, "s"), own, why)
}

// leave notes what is left out of a list, and tells of what was not before; mu is held.
func (u *upstream) leave(s *cachedList, left []string) {
	if n := len(left); n > maxLeft {
		left = append(left[:maxLeft:maxLeft], fmt.Sprintf("and %d more", n-maxLeft))
	}
	for _, why := range left {
		if !slices.Contains(s.left, why) {
			u.logf("%s", why)
		}
	}
	s.left = left
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

// relist asks a server again, with back-off and for longer each time, for the lists that
// it has not given, until the connection ends.
func (u *upstream) relist(c *conn) {
	for {
		select {
		case <-u.lacks:
		case <-c.over:
			return
		}
		limit := u.def.connectTimeout()
		for failures := 1; u.unlisted() != nil; failures++ {
			if !pause(backOff(failures), c.over, nil) {
				return
			}
			limit = min(2*limit, max(limit, u.def.callTimeout()))
			ctx, cancel := context.WithTimeoutCause(context.Background(), limit, fmt.Errorf("no answer within %v", limit))
			u.fetchStale(ctx, c)
			cancel()
			u.tellChanges()
			u.tellState()
		}
		u.setLate(false)
	}
}

// unlisted returns why the server has not given one of its lists, nil if it has given all.
func (u *upstream) unlisted() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, l := range wire.Lists {
		if err := u.lists[l].err; err != nil {
			return err
		}
	}
	return nil
}

// lend has the host be given a list as another connection of the server has it, while
// this one has none. It begins to be fetched, and the host is told if it is another.
func (u *upstream) lend(l *wire.List, items [][]byte) {
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

// gives reports whether the connection has a list, or is there to be asked for it, and
// has not failed to give it.
func (u *upstream) gives(l *wire.List) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.lists[l].filled || u.state == wire.Connected && u.lists[l].err == nil
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
