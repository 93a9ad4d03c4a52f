package mcpd

import (
	"encoding/json"
	"sync"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/mcpd/composite"
)

// Composites are the tools of an endpoint that are made of calls of servers' tools.
// Each of those is a call of its own: decided, recorded, part of the same trace.
type Composites struct {
	Tools []*composite.Tool
	// Find returns the server of a tool as a step names it, and its own name there;
	// ok is false if that names no server. The tool may be one that clients cannot
	// call themselves.
	Find func(tool string) (server, own string, ok bool)
	// Wrong is told why a composite tool cannot be offered, nil if it is. It must not
	// block.
	Wrong func(tool string, why error)
}

// composites are those of an endpoint, and what is known of the tools that they call.
type composites struct {
	Composites
	byName map[string]*composite.Tool

	mu    sync.Mutex           // guards parts
	parts map[string]wire.Item // by server__tool
}

// SetComposites gives the endpoint the composite tools of c in the place of those that
// it has, and tells sessions. Runs that have begun go on.
func (e *Endpoint) SetComposites(c Composites) {
	cs := &composites{Composites: c, byName: make(map[string]*composite.Tool)}
	for _, t := range c.Tools {
		cs.byName[t.Name()] = t
	}
	e.composites.Store(cs)
	e.changed("")
}

// composite returns the composite tool of that name, nil if there is none.
func (e *Endpoint) composite(name string) *composite.Tool {
	if cs := e.composites.Load(); cs != nil {
		return cs.byName[name]
	}
	return nil
}

// composed returns the composite tools as items, where servers offer what was found.
func (e *Endpoint) composed(list *wire.List, found []wire.Item) (items []wire.Item) {
	cs := e.composites.Load()
	if cs == nil || list != wire.Tools {
		return nil
	}
	parts := make(map[string]wire.Item)
	for _, it := range found {
		parts[jsonrpc.Name(it.Server, it.Original)] = it
	}
	used := make(map[string]wire.Item) // the others need not be kept
	part := func(tool string) *wire.Item {
		server, own, ok := cs.Find(tool)
		it, there := parts[jsonrpc.Name(server, own)]
		if !ok || !there {
			return nil
		}
		used[jsonrpc.Name(server, own)] = it
		return &it
	}
	for _, t := range cs.Tools {
		raw, err := t.Entry(func(tool string) *composite.Annotations { return hints(part(tool)) })
		cs.Wrong(t.Name(), err)
		if err == nil {
			items = append(items, wire.Item{Name: t.Name(), Original: t.Name(), Server: composite.Server, Raw: raw})
		}
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.parts = used
	return items
}

// known returns what is known of a tool that steps call, by its full name.
func (cs *composites) known(full string) *wire.Item {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if it, ok := cs.parts[full]; ok {
		return &it
	}
	return nil
}

// hints returns the annotations of a tool, nil if it has none.
func hints(it *wire.Item) *composite.Annotations {
	if it == nil {
		return nil
	}
	raw := rawjson.Get(it.Raw, "annotations")
	a := new(composite.Annotations)
	if raw == nil || json.Unmarshal(raw, a) != nil {
		return nil
	}
	return a
}
