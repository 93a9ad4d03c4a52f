package mcpd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/mcpd/pins"
	"hutch/mcpd/policy"
)

// offered returns what servers have said that they offer, as the guest knows it.
// Of tools it says which are held back: what their servers say counts, not what an
// Arrange makes of it. What is of no server of the profile is nothing: that server
// has gone, or an aggregator that is somebody else's by now has made it up.
func (e *Endpoint) offered(list *wire.List, by *Arrange, found []wire.Item) []wire.Item {
	servers := e.rules.Load().servers
	found = slices.DeleteFunc(slices.Clone(found), func(it wire.Item) bool {
		_, ok := servers[it.Server]
		return !ok
	})
	if list == wire.Tools && e.cfg.Pins != nil {
		byServer := make(map[string][]*wire.Item)
		for i := range found {
			byServer[found[i].Server] = append(byServer[found[i].Server], &found[i])
		}
		for server, tools := range byServer {
			if e.pins(server) {
				e.hold(server, tools)
			}
		}
	}
	return e.tellable(append(guestItems(list, by, found), e.composed(list, found)...))
}

// tellable returns those of items that have a name of their own for the client: of two that
// differ only in a secret, which it may not see, the first.
func (e *Endpoint) tellable(items []wire.Item) []wire.Item {
	if e.cfg.Hide == nil {
		return items
	}
	told := make(map[string]bool, len(items))
	return slices.DeleteFunc(items, func(it wire.Item) bool {
		name, why := e.hide(rawjson.Quote(it.Name))
		twice := told[string(name)]
		told[string(name)] = true
		return twice || why != nil
	})
}

// hold holds back those tools of a server that are not approved, and tells of it.
func (e *Endpoint) hold(server string, tools []*wire.Item) {
	strict := e.rules.Load().servers[server].Pin == wire.PinStrict
	defined := make([]pins.Tool, len(tools))
	for i, it := range tools {
		defined[i] = pins.Tool{Name: it.Original, Raw: it.Raw}
	}
	var news []string
	for i, v := range e.cfg.Pins.Judge(server, strict, defined) {
		if v.Held != "" {
			tools[i].Held = &wire.Hold{Why: v.Held, Said: slices.Clone(tools[i].Raw)}
		}
		if v.News {
			news = append(news, fmt.Sprintf("%.100q: %s", tools[i].Name, v.Held))
		}
	}
	if n := len(news); n > maxHeldNews {
		news = append(news[:maxHeldNews], fmt.Sprintf("and %d more", n-maxHeldNews))
	}
	if len(news) > 0 {
		e.alert("mcp.held", policy.RulePin, "", fmt.Sprintf("server %s: held back until it is approved: %s", server, strings.Join(news, "; ")))
	}
}

// maxHeldNews is how many tools are named that are held back from now on.
const maxHeldNews = 8

// heldBack is the decision about a call of a tool that is held back.
func heldBack(tool, why string) policy.Decision {
	return policy.Decision{
		Rule: policy.RulePin, Code: policy.ToolNotApproved,
		Reason: fmt.Sprintf("tool %.200q is held back: %s: a person has to look at mcp/tools, and to write %q to mcp/ctl", tool, why, "approve "+fs.Quote(fs.Shorten(tool))),
	}
}

// An Approval is a tool that was approved.
type Approval struct {
	Name   string // the guest's
	Digest pins.Digest
}

// Approve approves the tool that the guest calls name as its server offers it now,
// or all that the server called name offers, and tells the guest of them; a tool that
// is held back goes before a server of its name. A digest that is not "" has to be the
// tool's. It returns what was held back until then.
func (e *Endpoint) Approve(ctx context.Context, name, digest string) ([]Approval, error) {
	if e.cfg.Pins == nil {
		return nil, fmt.Errorf("%w: nothing is held back here", fs.ErrUnsupported)
	}
	if _, err := e.catalogs.of("")[wire.Tools].last(ctx, e); err != nil {
		return nil, err
	}
	servers := e.rules.Load().servers
	tools := e.toolsOf(func(it *wire.Item) bool {
		_, ok := servers[it.Server] // else it is hutch's own
		return ok && it.Name == name
	})
	_, all := servers[name]
	if all = all && (len(tools) == 0 || tools[0].Held == nil); all {
		tools = e.toolsOf(func(it *wire.Item) bool { return it.Server == name })
	}
	if err := e.mayApprove(tools, name, digest, all); err != nil {
		return nil, err
	}
	var held []pins.Tool
	var others []string
	var done []Approval
	for _, it := range tools {
		if it.Held == nil {
			others = append(others, it.Original)
			continue
		}
		held = append(held, pins.Tool{Name: it.Original, Raw: it.Held.Said})
		done = append(done, Approval{it.Name, pins.DigestOf(it.Held.Said)})
	}
	if held == nil && !all {
		return nil, nil
	}
	approve := e.cfg.Pins.Approve
	if all {
		approve = func(server string, held []pins.Tool) error { return e.cfg.Pins.ApproveAll(server, held, others) }
	}
	if err := approve(tools[0].Server, held); err != nil {
		return nil, err
	}
	e.catalogs.each("", func(c catalog) { c.forget(wire.Tools.Changed) })
	e.broadcast("", wire.Tools.Changed, nil)
	e.refresh()
	return done, nil
}

// mayApprove says why tools, which are what name says, cannot be approved.
func (e *Endpoint) mayApprove(tools []wire.Item, name, digest string, all bool) error {
	if len(tools) == 0 {
		return fmt.Errorf("%w: %s: no server here that offers tools now, nor a tool of one", fs.ErrNotExist, name)
	}
	switch {
	case !e.pins(tools[0].Server):
		return fmt.Errorf("%w: %s: nothing that %s offers is held back", fs.ErrInvalid, name, ledgerName(tools[0].Server))
	case digest == "":
		return nil
	case all:
		return fmt.Errorf("%w: %s is a server, and a digest is of one tool", fs.ErrInvalid, name)
	}
	if held := tools[0].Held; held != nil && pins.DigestOf(held.Said).String() != digest {
		return fmt.Errorf("%w: %s has another digest now: look at it anew", fs.ErrBusy, name)
	}
	return nil
}

// pins says whether tools of a server are held back when they change.
func (e *Endpoint) pins(server string) bool {
	return e.cfg.Pins != nil && e.rules.Load().servers[server].Pin != wire.PinNone
}

// toolsOf returns those tools of servers that want takes, each once, as they were
// listed last for clients of any capabilities. Where that differs, what is held
// back goes before what is not.
func (e *Endpoint) toolsOf(want func(*wire.Item) bool) []wire.Item {
	var tools []wire.Item
	at := make(map[string]int)
	e.catalogs.each("", func(c catalog) {
		st := c[wire.Tools].held.Load()
		if st == nil {
			return
		}
		for i := range st.items {
			it := &st.items[i]
			had, known := at[it.Name]
			switch {
			case !want(it):
			case !known:
				at[it.Name] = len(tools)
				tools = append(tools, *it)
			case it.Held != nil && tools[had].Held == nil:
				tools[had] = *it
			}
		}
	})
	return tools
}

// Held returns the tools that are held back, as far as that is known: no server is
// asked.
func (e *Endpoint) Held() []wire.Item {
	var list []wire.Item
	for _, it := range e.catalogs.of("")[wire.Tools].known(e).items {
		if it.Held != nil {
			list = append(list, it)
		}
	}
	return list
}

// Approved returns what was approved of a tool, as Store.Text has it; "" if nothing was.
func (e *Endpoint) Approved(it wire.Item) (string, error) {
	if !e.pins(it.Server) {
		return "", nil
	}
	return e.cfg.Pins.Approved(it.Server, it.Original)
}

// Offered is Approved of what the tool's server says of it now. Of one that is not
// held back that is what was approved.
func (e *Endpoint) Offered(it wire.Item) (string, error) {
	if it.Held != nil {
		return e.cfg.Pins.Text(it.Held.Said), nil
	}
	if text, err := e.Approved(it); err != nil || text != "" {
		return text, err
	}
	return e.cfg.Pins.Text(it.Raw), nil
}
