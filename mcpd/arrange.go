package mcpd

import (
	"context"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
	"hutch/mcpd/dispatch"
)

// An Arrange says by which names clients know what the servers offer. It is given all
// items of a list, each named server__name or capsem://server/uri, and returns those
// that clients may know of: Name is what they are to know it by, Raw what they are to
// see of it, but for the name in that; Server and Original stay, since calls go there,
// and Held, since what is held back is neither shown nor called by any name.
// Of two of one name the first counts. It is called by several goroutines at once, and
// changes nothing of what it is given.
//
// What it leaves out cannot be called, by no name. Resources have their full name,
// capsem://server/uri, beside the one that it gives them.
type Arrange func(list *wire.List, items []wire.Item) []wire.Item

// SetArrange has clients know what the servers offer by the names that a gives; nil:
// by server__name and capsem://server/uri. Sessions are told that the lists changed;
// calls that were routed before go on.
func (e *Endpoint) SetArrange(a Arrange) {
	if a == nil {
		e.arrange.Store(nil)
	} else {
		e.arrange.Store(&a)
	}
	e.changed("")
}

// arranged returns what the call names in a list by the name that an Arrange gave it,
// and notes the server that has it; nil if there is none, or its server has gone.
func (c *call) arranged(ctx context.Context, list *wire.List) (*wire.Item, *Error) {
	it, err := c.catalog()[list].find(ctx, c.session.e, c.tool)
	if err != nil || it == nil || c.session.e.isOwn(c.tool) || !c.goesTo(it.Server, it.Original) {
		return nil, err
	}
	c.renamed = true
	return it, nil
}

// planArrangedTool plans a call of a server's tool by the name that an Arrange gave it.
func planArrangedTool(ctx context.Context, c *call) (step, *Error) {
	it, err := c.arranged(ctx, wire.Tools)
	if err == nil && it == nil && c.server == "" { // perhaps its server has been listed only since the list was fetched
		tools := c.catalog()[wire.Tools]
		for _, server := range c.session.e.listed(ctx) {
			tools.renew(server)
		}
		it, err = c.arranged(ctx, wire.Tools)
	}
	switch {
	case err != nil:
		return nil, err
	case it == nil:
		if c.server == "" {
			c.own, c.missing = c.tool, true
		}
		return c.unknown, nil
	}
	c.schema, c.held = it.Schema, it.Held
	return c.forward(pName), nil
}

// isOwn reports whether a tool of that name is there without any server.
func (e *Endpoint) isOwn(tool string) bool {
	return e.work.Has(tool) || tool == dispatch.Tool && e.cfg.Run != nil || e.composite(tool) != nil
}

// enter makes the items be found by their names; resources by their full names, too,
// where an Arrange gave them others.
func (st *stock) enter(list *wire.List) {
	for i := range st.items {
		st.index[st.items[i].Name] = &st.items[i]
	}
	if st.by == nil || list.Capability != "resources" {
		return
	}
	for i := range st.items {
		full := jsonrpc.URI(st.items[i].Server, st.items[i].Original)
		if st.index[full] == nil {
			st.index[full] = &st.items[i]
		}
	}
}
