package alone

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// lister answers a list request. There is one page.
func lister(l *wire.List) func(*face, context.Context, jsonrpc.Message) (json.RawMessage, *jsonrpc.Error) {
	return func(f *face, ctx context.Context, q jsonrpc.Message) (json.RawMessage, *jsonrpc.Error) {
		if cursor := rawjson.Get(q.Params, "cursor"); rawjson.IsString(cursor) {
			return nil, jsonrpc.Errorf(jsonrpc.CodeParams, "Invalid params: no list has the cursor %.40s", cursor)
		}
		items, err := f.list(ctx, l)
		if err != nil {
			return nil, jsonrpc.Errorf(jsonrpc.CodeInternal, "%s", said(err))
		}
		return encode(l, items), nil
	}
}

// list returns what all servers have, by the client's names.
func (f *face) list(ctx context.Context, l *wire.List) ([]wire.Item, error) {
	changes := f.tools.snapshot()
	items, err := f.child.List(ctx, l, "")
	if err != nil {
		return nil, err
	}
	items = f.names.arrange(l, items)
	if l == wire.Tools {
		f.tools.fill(changes, items)
	}
	return items, nil
}

// encode returns the result of a list request: each item as its server sent it, but
// for the name.
func encode(l *wire.List, items []wire.Item) json.RawMessage {
	size := 64
	for _, it := range items {
		size += len(it.Raw) + len(it.Name) + 8
	}
	b := append(append(append(make([]byte, 0, size), `{"`...), l.Result...), `":[`...)
	comma := false
	for _, it := range items {
		raw, err := rawjson.SetString(it.Raw, it.Name, l.Own)
		if err != nil {
			continue // no object, or one without a name: no client could use it
		}
		if comma {
			b = append(b, ',')
		}
		b, comma = append(b, raw...), true
	}
	return append(b, "]}"...)
}

// A shelf keeps the tools as they were listed last.
type shelf struct {
	changes map[string]*atomic.Int64 // counts what each server told of
	held    atomic.Pointer[map[string]tool]
}

// A tool is one of a server's, as it was after so many changes.
type tool struct {
	server, own string
	changes     int64
}

func newShelf(n *names) *shelf {
	s := &shelf{changes: make(map[string]*atomic.Int64)}
	for name := range n.byName {
		s.changes[name] = new(atomic.Int64)
	}
	s.fill(nil, nil)
	return s
}

// changed notes that a server told of a change.
func (s *shelf) changed(server string) {
	if n := s.changes[server]; n != nil {
		n.Add(1)
	}
}

// snapshot returns the changes by now.
func (s *shelf) snapshot() map[string]int64 {
	now := make(map[string]int64, len(s.changes))
	for server, n := range s.changes {
		now[server] = n.Load()
	}
	return now
}

func (s *shelf) fill(changes map[string]int64, items []wire.Item) {
	index := make(map[string]tool, len(items))
	for _, it := range items {
		index[it.Name] = tool{it.Server, it.Original, changes[it.Server]}
	}
	s.held.Store(&index)
}

// find finds a tool, as it was listed last, if its server told of no change since.
func (s *shelf) find(name string) (it tool, ok bool) {
	if it, ok = (*s.held.Load())[name]; ok {
		ok = it.changes == s.changes[it.server].Load()
	}
	return it, ok
}

// toolWait is how long a call may wait for the lists of servers, when its tool is in
// none yet.
const toolWait = 2 * time.Second

// tool finds the server that has a tool. Of one that is not connected it is not known
// what it has: the call will show that, or tell why the server is not there.
func (f *face) tool(ctx context.Context, name string) (s *Server, own string, found bool) {
	if it, ok := f.tools.find(name); ok {
		return f.names.byName[it.server], it.own, true
	}
	s, own = f.names.split(name)
	there := s != nil && s.Wrong == nil && f.connected(ctx, s)
	if !there && !f.names.safe {
		return s, own, s != nil
	}
	ctx, cancel := context.WithTimeout(ctx, toolWait)
	defer cancel()
	if _, err := f.list(ctx, wire.Tools); err != nil {
		return s, own, true
	}
	it, ok := (*f.tools.held.Load())[name]
	if !ok {
		return s, own, s != nil && !there
	}
	return f.names.byName[it.server], it.own, true
}

// connected says whether a server is.
func (f *face) connected(ctx context.Context, s *Server) bool { return f.status(ctx, s).Connected }

// status returns what is known of a server.
func (f *face) status(ctx context.Context, s *Server) (st wire.Status) {
	all, _ := f.child.Servers(ctx)
	if i := slices.IndexFunc(all, func(st wire.Status) bool { return st.Name == s.Name }); i >= 0 {
		st = all[i]
	}
	return st
}
