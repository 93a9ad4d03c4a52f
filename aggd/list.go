package aggd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// listServers answers list_servers.
func (a *aggregator) listServers(q request) ([]byte, error) {
	client := text(q.Params, "client")
	list := []wire.Status{}
	for _, s := range q.set.order {
		list = append(list, s.status(client))
	}
	fields, err := rawjson.Encode(list)
	return append([]byte(`"servers":`), fields...), err
}

// lister answers list_*: what all servers have, in the order of the servers.
func lister(l *wire.List) func(*aggregator, context.Context, request) ([]byte, error) {
	return func(a *aggregator, ctx context.Context, q request) ([]byte, error) {
		wait, cancel := context.WithTimeout(ctx, a.cfg.ListWait)
		defer cancel()
		client := text(q.Params, "client")
		if _, known := a.capabilities(client); client != "" && !known {
			return nil, fmt.Errorf("unknown client: %.40s", client)
		}
		kept := string(rawjson.Get(q.Params, "kept")) == "true"
		servers := q.set.order
		parts := make([]part, len(servers))
		var each sync.WaitGroup
		for i, s := range servers {
			each.Go(func() { parts[i] = s.part(wait, l, client, kept) })
		}
		each.Wait()
		if ctx.Err() != nil { // nobody wants it any more, and it may be long
			return nil, context.Cause(ctx)
		}
		return a.encodeParts(l, parts), nil
	}
}

// A part is what a server has of a list. While another is waited for it holds what
// the server holds, and no copy.
type part struct {
	server string
	items  [][]byte
}

// part returns the server's part of a list; if kept, what there is of it by now.
func (s *server) part(ctx context.Context, l *wire.List, client string, kept bool) part {
	u, err := s.upstream(client)
	if err != nil {
		return part{}
	}
	var items [][]byte
	if kept {
		items = u.has(l)
	} else {
		items = s.items(ctx, u, l)
	}
	if l == wire.Tools {
		items = s.def.Load().visible(items)
	}
	return part{u.name, items}
}

// maxList is how long a list may be that is written down: hutchd reads no longer line.
const maxList = wire.MaxLimit

// encodeParts returns a list as the member of an answer. If all servers together have
// too much, those that have the most are left out.
func (a *aggregator) encodeParts(l *wire.List, parts []part) []byte {
	line, left := encodeList(l, parts)
	if left == nil {
		return line
	}
	bySize := slices.SortedStableFunc(slices.Values(parts), func(x, y part) int { return cmp.Compare(cost(x.items), cost(y.items)) })
	_, left = encodeList(l, bySize)
	for _, server := range left {
		a.logf("%s: left out its %s: with them the list is over %d bytes", server, l.Field, maxList)
	}
	line, _ = encodeList(l, slices.DeleteFunc(parts, func(p part) bool { return slices.Contains(left, p.server) }))
	return line
}

// encodeList is encodeParts for parts that are left out where those before them have
// left too little room, and returns the servers of those.
func encodeList(l *wire.List, parts []part) (line []byte, left []string) {
	size := 0
	for _, p := range parts {
		for _, raw := range p.items {
			size += len(raw) + 2*len(p.server) + 128
		}
	}
	line = fmt.Appendf(make([]byte, 0, min(size, maxList)), `%q:[`, l.Field)
	for _, p := range parts {
		begin := len(line)
		for _, raw := range p.items {
			if line[len(line)-1] != '[' {
				line = append(line, ',')
			}
			if line = appendEntry(line, l, p.server, raw); len(line) > maxList {
				line, left = line[:begin], append(left, p.server)
				break
			}
		}
	}
	return append(line, ']'), left
}
