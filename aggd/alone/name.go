package alone

import (
	"slices"
	"strings"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
)

// internal returns the name that the aggregator knows the server of a key by, which
// may not have all that a key may: what it may not have stands there as %XX.
func internal(key string) string {
	if key == "" {
		return "%"
	}
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(key) {
		c := key[i]
		if c < ' ' || c == 0x7F || c == '%' || c == '/' || c == '_' && strings.HasPrefix(key[i+1:], "_") || key == "builtin" && i == 0 {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// names make the names that the client knows, KEY, separator and a server's own, and
// take them apart.
type names struct {
	separator string
	safe      bool      // tools have names that every client takes
	byLength  []*Server // the longest key first
	byName    map[string]*Server
}

func newNames(servers []Server, separator string, safe bool) *names {
	n := &names{separator: separator, safe: safe, byName: make(map[string]*Server)}
	for i := range servers {
		n.byLength = append(n.byLength, &servers[i])
		n.byName[servers[i].Name] = &servers[i]
	}
	slices.SortStableFunc(n.byLength, func(a, b *Server) int { return len(b.Key) - len(a.Key) })
	return n
}

// join returns the client's name of what a server has; ok is false for one that is
// not of the file.
func (n *names) join(server, own string) (name string, ok bool) {
	s := n.byName[server]
	if s == nil {
		return "", false
	}
	return s.Key + n.separator + own, true
}

// split takes a client's name apart. A key may have the separator in it: the longest
// that the name begins with counts.
func (n *names) split(name string) (s *Server, own string) {
	for _, s := range n.byLength {
		if rest, ok := strings.CutPrefix(name, s.Key); ok {
			if own, ok := strings.CutPrefix(rest, n.separator); ok {
				return s, own
			}
		}
	}
	return nil, ""
}

// arrange names the items of a list that are of servers. Of two items of one name that
// of the longest key is there, for which split is too.
func (n *names) arrange(l *wire.List, items []wire.Item) []wire.Item {
	taken := make(map[string]int, len(items)) // where it stands in kept
	kept := make([]wire.Item, 0, len(items))
	for _, it := range items {
		name, ok := n.join(it.Server, it.Original)
		if n.safe && l == wire.Tools {
			name = jsonrpc.SafeName(name, it.Server, it.Original, true)
		}
		at, twice := taken[name]
		it.Name = name
		switch {
		case !ok:
		case !twice:
			taken[name] = len(kept)
			kept = append(kept, it)
		case len(it.Original) < len(kept[at].Original):
			kept[at] = it
		}
	}
	return kept
}
