package aggd

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// listServers answers list_servers.
func (a *aggregator) listServers(q request) ([]byte, error) {
	client := text(q.params, "client")
	list := []wire.Status{}
	for _, s := range q.set.order {
		list = append(list, s.status(client))
	}
	fields, err := rawjson.Encode(list)
	return append([]byte(`"servers":`), fields...), err
}

// lister answers list_*: what all servers have, in the order of the servers.
func lister(k *kind, field string) func(*aggregator, context.Context, request) ([]byte, error) {
	return func(a *aggregator, ctx context.Context, q request) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, a.cfg.ListWait)
		defer cancel()
		client := text(q.params, "client")
		if _, known := a.capabilities(client); client != "" && !known {
			return nil, fmt.Errorf("unknown client: %.40s", client)
		}
		servers := q.set.order
		parts := make([][]byte, len(servers))
		var each sync.WaitGroup
		for i, s := range servers {
			each.Go(func() { parts[i] = s.entries(ctx, k, client) })
		}
		each.Wait()
		parts = deleteEmpty(parts)
		return fmt.Appendf(nil, `%q:[%s]`, field, bytes.Join(parts, []byte(","))), nil
	}
}

func deleteEmpty(parts [][]byte) [][]byte {
	full := parts[:0]
	for _, p := range parts {
		if len(p) > 0 {
			full = append(full, p)
		}
	}
	return full
}

// entries returns a server's part of a list.
func (s *server) entries(ctx context.Context, k *kind, client string) []byte {
	u, err := s.upstream(client)
	if err != nil {
		return nil
	}
	items := u.items(ctx, k)
	if k == tools {
		items, _ = s.definition().visible(items)
	}
	var line []byte
	for i, raw := range items {
		if i > 0 {
			line = append(line, ',')
		}
		line = appendEntry(line, k, u.name, raw)
	}
	return line
}
