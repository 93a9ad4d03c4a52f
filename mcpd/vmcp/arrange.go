package vmcp

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/mcpd/composite"
)

// Arrange returns what clients are to know of a list of the servers' items, each by
// the name that the configuration gives it, and a line for each thing that it had to
// decide: what lost its name to another, and what an override, a filter or a step of a
// composite tool names that is not there.
// The same items in any order give the same names. It is an mcpd.Arrange but for those
// lines.
//
// Names of tools and prompts fit ^[a-zA-Z0-9_-]{1,64}$, with the dots of a prefixFormat
// that has some: other characters become _, what is too long is cut, and then the name
// ends in _ and eight digits of a sum of the server's name and the tool's own. The
// names of a server alone stay as they are.
func (c *Config) Arrange(list *wire.List, items []wire.Item) (arranged []wire.Item, said []string) {
	n := newNamer(c)
	items = sorted(items)
	switch {
	case list == wire.Tools:
		arranged = n.tools(items)
	case list == wire.Prompts:
		arranged = n.prompts(items)
	case !c.full:
		arranged = n.resources(items)
	default:
		arranged = items
	}
	if n.more > 0 {
		n.said = append(n.said, fmt.Sprintf("and %d more", n.more))
	}
	return arranged, n.said
}

func named(claims []claim) []wire.Item {
	items := make([]wire.Item, 0, len(claims))
	for _, cl := range claims {
		cl.Item.Name = cl.name
		items = append(items, cl.Item)
	}
	return items
}

// tools overrides, filters, and then names tools: what is hidden takes nobody's name.
func (n *namer) tools(items []wire.Item) []wire.Item {
	c := n.c
	taken := make(map[string]bool) // the names of composite tools, which no server's tool has
	for _, d := range c.CompositeTools {
		taken[d.Name] = true
	}
	n.missing(items)
	var claims []claim
	for _, it := range items {
		w := n.works[it.Server]
		if !c.shows(w, it.Original) {
			continue
		}
		cl := claim{it, it.Original}
		if w != nil {
			cl = w.override(cl)
		}
		switch {
		case c.alone != "":
		case c.Aggregation.Conflicts == Prefix:
			cl.name = c.safe(it, c.prefixed(it.Server, cl.name))
		default:
			cl.name = c.safe(it, cl.name)
		}
		claims = append(claims, cl)
	}
	if c.Aggregation.Conflicts == Priority {
		claims = n.byPriority(claims)
	}
	n.hard = c.Aggregation.Conflicts == Manual
	return named(n.settle(claims, taken))
}

// prompts names prompts: with their servers' names, but for those of servers in the
// order of priority.
func (n *namer) prompts(items []wire.Item) []wire.Item {
	var first, rest []claim
	for _, it := range items {
		switch {
		case n.c.alone != "":
			rest = append(rest, claim{it, it.Original})
		case n.c.Aggregation.Conflicts == Priority && n.rank(it.Server) != unranked:
			first = append(first, claim{it, n.c.safe(it, it.Original)})
		default:
			rest = append(rest, claim{it, n.c.safe(it, n.c.prefixed(it.Server, it.Original))})
		}
	}
	return named(n.settle(append(n.byPriority(first), rest...), make(map[string]bool)))
}

// resources gives resources and templates the URIs that their servers have for them:
// URIs stand in results and notifications, too. Of servers that have the same, the
// first by priority, then by name, has it; the others' have their full URIs.
func (n *namer) resources(items []wire.Item) []wire.Item {
	slices.SortStableFunc(items, func(a, b wire.Item) int { return n.rank(a.Server) - n.rank(b.Server) })
	taken := make(map[string]bool)
	for i := range items {
		it := &items[i]
		if !taken[it.Original] && !strings.HasPrefix(it.Original, jsonrpc.Scheme) {
			taken[it.Original] = true
			it.Name = it.Original
		}
	}
	return items
}

// shows tells whether clients may know of a tool; w is nil if nothing is said of its
// server.
func (c *Config) shows(w *work, tool string) bool {
	switch {
	case c.Aggregation.ExcludeAllTools:
		return false
	case w == nil:
		return c.Aggregation.Visibility != "deny"
	case w.ExcludeAll:
		return false
	}
	return w.shown == nil || w.shown[tool]
}

// Names returns tools by what a step of a composite tool may call them beside
// SERVER.TOOL: the names that Arrange gives them and, of those that it leaves out, the
// ones that they would have. Without composite tools there are none.
func (c *Config) Names(items []wire.Item) map[string]wire.Item {
	names := make(map[string]wire.Item)
	if len(c.CompositeTools) == 0 {
		return names
	}
	whole := *c
	whole.Aggregation.ExcludeAllTools, whole.Aggregation.Visibility = false, ""
	whole.Aggregation.Tools = slices.Clone(c.Aggregation.Tools)
	for i := range whole.Aggregation.Tools {
		w := &whole.Aggregation.Tools[i]
		w.ExcludeAll, w.Filter = false, nil
	}
	for _, of := range []*Config{&whole, c} { // a name that clients call is the tool that they call by it
		arranged, _ := of.Arrange(wire.Tools, items)
		for _, it := range arranged {
			names[it.Name] = wire.Item{Name: it.Name, Original: it.Original, Server: it.Server}
		}
	}
	return names
}

// Tool returns the own name of the tool that a composite tool calls SERVER.NAME. It may
// be one that clients do not know of.
func (c *Config) Tool(server, name string) string { return newNamer(c).ownName(server, name) }

// ownName is that of a work, for a server of which nothing may be said.
func (n *namer) ownName(server, name string) string {
	if w := n.works[server]; w != nil {
		return w.ownName(name)
	}
	return name
}

// override gives a tool what the configuration says of it, and leaves every other byte.
func (w *work) override(cl claim) claim {
	o, ok := w.Overrides[cl.Original]
	if !ok {
		return cl
	}
	if o.Name != "" {
		cl.name = o.Name
	}
	if o.Description != "" {
		cl.Raw = put(cl.Raw, "description", rawjson.Quote(o.Description))
	}
	if o.Annotations != nil {
		cl.Raw = rawjson.Merge(cl.Raw, hints(o.Annotations), "annotations")
	}
	return cl
}

// hints returns what is said of annotations as JSON.
func hints(a *composite.Annotations) []byte {
	b, _ := rawjson.Encode(a) // texts and truths always can be
	return b
}

// put returns the object with a member that has a value, in the place of what it has.
func put(obj []byte, name string, value []byte) []byte {
	if rawjson.Get(obj, name) != nil {
		return rawjson.Set(obj, value, name)
	}
	at := bytes.IndexByte(obj, '{') + 1
	member := append(append(rawjson.Quote(name), ':'), value...)
	if len(rawjson.Inside(obj)) > 0 {
		member = append(member, ',')
	}
	return rawjson.Splice(obj, at, at, member)
}

// missing notes the overrides, filters and steps that are about no tool of a server
// which has some; one that has none may be on its way.
func (n *namer) missing(items []wire.Item) {
	has := make(map[string]map[string]bool)
	for _, it := range items {
		if has[it.Server] == nil {
			has[it.Server] = make(map[string]bool)
		}
		has[it.Server][it.Original] = true
	}
	f := faults{c: n.c}
	for i, w := range n.c.Aggregation.Tools {
		tools := has[w.Workload]
		if tools == nil {
			continue
		}
		filter, overrides := toolPath(i, "filter"), toolPath(i, "overrides")
		if n.c.alone != "" {
			filter, overrides = []string{"tools_filter"}, []string{"tools_override"}
		}
		for tool := range w.Overrides {
			if !tools[tool] {
				f.add(at(overrides, tool), "%s has no such tool", w.Workload)
			}
		}
		for j, tool := range w.Filter {
			if !tools[n.works[w.Workload].ownName(tool)] {
				f.add(at(filter, strconv.Itoa(j)), "%s has no tool %.80q", w.Workload, tool)
			}
		}
	}
	n.missed(&f, has)
	n.said = f.texts()
}

// missed notes the steps that call what is no tool of a server, by those that each has.
func (n *namer) missed(f *faults, has map[string]map[string]bool) {
	n.c.eachCall(func(path []string, tool string) {
		server, name, ok := Split(tool, func(server string) bool { return has[server] != nil })
		if ok && !has[server][n.ownName(server, name)] {
			f.add(path, "%s has no tool %.80q", server, name)
		}
	})
}
