package vmcp

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
)

// maxName is how long a name may be that clients take.
const maxName = jsonrpc.MaxClientName

// safeName is what every client takes for the name of a tool.
var safeName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// workloadWord stands for the name of the server in a prefix.
const workloadWord = "{workload}"

// A claim is an item and the name that it is to have.
type claim struct {
	wire.Item
	name string
}

// String tells of an item what a person needs to find it, on one line.
func (cl claim) String() string { return fmt.Sprintf("%.80q of %s", cl.Original, cl.Server) }

// A namer gives names by a configuration, and notes what there is to say.
type namer struct {
	c     *Config
	works map[string]*work // by server
	ranks map[string]int   // of the servers in the order of priority
	hard  bool             // what several claim is left out
	said  []string
	more  int // that were not noted, since there are too many
}

// A work is what the configuration says of the tools of one server.
type work struct {
	*Workload
	own   map[string]string // by the name that an override gives
	shown map[string]bool   // by own names; nil: all
}

func newNamer(c *Config) *namer {
	n := &namer{c: c, works: make(map[string]*work), ranks: make(map[string]int)}
	for i := range c.Aggregation.Tools {
		w := &work{Workload: &c.Aggregation.Tools[i], own: make(map[string]string)}
		n.works[w.Workload.Workload] = w
		for tool, o := range w.Overrides {
			if o.Name != "" {
				w.own[o.Name] = tool
			}
		}
		if w.Filter != nil {
			w.shown = make(map[string]bool)
		}
		for _, name := range w.Filter {
			w.shown[w.ownName(name)] = true
		}
	}
	for i, server := range c.Aggregation.ConflictsConfig.PriorityOrder {
		n.ranks[server] = i
	}
	return n
}

// ownName returns the name that a tool has at the server which the configuration calls
// name: that is the one to which an override gives that name, if there is one.
func (w *work) ownName(name string) string {
	if own, ok := w.own[name]; ok {
		return own
	}
	return name
}

// unranked is the rank of servers that are not in the order.
const unranked = 1 << 30

// rank returns the place of a server in the order of priority.
func (n *namer) rank(server string) int {
	if i, ok := n.ranks[server]; ok {
		return i
	}
	return unranked
}

func (n *namer) say(format string, args ...any) {
	if len(n.said) >= maxFaults {
		n.more++
		return
	}
	n.said = append(n.said, fmt.Sprintf(format, args...))
}

// prefixed returns a name that begins with its server's.
func (c *Config) prefixed(server, name string) string {
	return strings.ReplaceAll(c.Aggregation.ConflictsConfig.PrefixFormat, workloadWord, server) + name
}

// safe returns the name as clients take it.
func (c *Config) safe(it wire.Item, name string) string {
	return jsonrpc.SafeName(name, it.Server, it.Original, c.full || strings.Contains(c.Aggregation.ConflictsConfig.PrefixFormat, "."))
}

// summed returns the name with so many digits of a sum of what the item is.
func summed(it wire.Item, name string, digits int) string {
	return jsonrpc.SummedName(name, it.Server, it.Original, digits)
}

// sums are how many digits the names have in turn that several claim; 0: nobody has them.
var sums = []int{jsonrpc.ShortSum, 2 * jsonrpc.ShortSum, 4 * jsonrpc.ShortSum, 0}

// settle gives each claim a name that no other has. A name that several claim, or that
// is taken already, nobody gets: which of them came first, or is there today, must not
// decide what a client calls. They are told apart by a sum, or left out where the
// configuration is to say who has it.
func (n *namer) settle(claims []claim, taken map[string]bool) (settled []claim) {
	for _, digits := range sums {
		by := make(map[string][]claim)
		for _, cl := range claims {
			by[cl.name] = append(by[cl.name], cl)
		}
		claims = nil
		for _, name := range slices.Sorted(maps.Keys(by)) {
			if all := by[name]; len(all) == 1 && !taken[name] {
				settled = append(settled, all[0])
			} else {
				claims = append(claims, n.part(all, name, digits)...)
			}
			taken[name] = true
		}
	}
	return settled
}

// part has those that claim one name claim others.
func (n *namer) part(all []claim, name string, digits int) (parted []claim) {
	var who []string
	for i, cl := range all {
		if i < maxFaults {
			who = append(who, cl.String())
		}
		if digits > 0 {
			cl.name = summed(cl.Item, name, digits)
			parted = append(parted, cl)
		}
	}
	what := fmt.Sprintf("the name %.80q is claimed by %s", name, strings.Join(who, " and "))
	if len(all) == 1 {
		what += ", and has gone to another"
	}
	if n.hard || digits == 0 {
		n.say("%s: left out: say by overrides who has it", what)
		return nil
	}
	n.say("%s: told apart by sums", what)
	return parted
}

// sorted returns the items in an order that hangs on them alone, each once: of two of one
// server that have one name, the one that is held back.
func sorted(items []wire.Item) []wire.Item {
	items = slices.Clone(items)
	slices.SortFunc(items, func(a, b wire.Item) int {
		if c := cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Original, b.Original)); c != 0 {
			return c
		}
		switch {
		case a.Held != nil && b.Held == nil:
			return -1
		case a.Held == nil && b.Held != nil:
			return 1
		}
		return bytes.Compare(a.Raw, b.Raw)
	})
	return slices.CompactFunc(items, func(a, b wire.Item) bool { return a.Server == b.Server && a.Original == b.Original })
}

// byPriority takes out the claims to a name that a server has which comes first. Where
// none of those that claim a name is in the order, each has its server's prefix.
func (n *namer) byPriority(claims []claim) (left []claim) {
	by := make(map[string][]claim)
	for _, cl := range claims {
		by[cl.name] = append(by[cl.name], cl)
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		all := by[name]
		first := slices.MinFunc(all, func(a, b claim) int { return cmp.Compare(n.rank(a.Server), n.rank(b.Server)) })
		switch {
		case len(all) == 1:
			left = append(left, first)
		case n.rank(first.Server) == unranked:
			for _, cl := range all {
				cl.name = n.c.safe(cl.Item, n.c.prefixed(cl.Server, name))
				left = append(left, cl)
			}
		default:
			for _, cl := range all {
				if cl.Server == first.Server {
					left = append(left, cl)
				} else {
					n.say("%s: left out: %s comes first with the name %.80q", cl, first.Server, name)
				}
			}
		}
	}
	return left
}
