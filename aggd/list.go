package aggd

import (
	"bytes"
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
		ctx, cancel := context.WithTimeout(ctx, a.cfg.ListWait)
		defer cancel()
		client := text(q.Params, "client")
		if _, known := a.capabilities(client); client != "" && !known {
			return nil, fmt.Errorf("unknown client: %.40s", client)
		}
		servers := q.set.order
		parts := make([][]byte, len(servers))
		var each sync.WaitGroup
		for i, s := range servers {
			each.Go(func() { parts[i] = s.entries(ctx, l, client) })
		}
		each.Wait()
		parts = slices.DeleteFunc(parts, func(part []byte) bool { return len(part) == 0 })
		return fmt.Appendf(nil, `%q:[%s]`, l.Field, bytes.Join(parts, []byte(","))), nil
	}
}

// entries returns a server's part of a list.
func (s *server) entries(ctx context.Context, l *wire.List, client string) []byte {
	u, err := s.upstream(client)
	if err != nil {
		return nil
	}
	items := u.items(ctx, l)
	if l == wire.Tools {
		items = s.def.Load().visible(items)
	}
	var line []byte
	for i, raw := range items {
		if i > 0 {
			line = append(line, ',')
		}
		line = appendEntry(line, l, u.name, raw)
	}
	return line
}
