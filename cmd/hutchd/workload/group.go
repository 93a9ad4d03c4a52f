package workload

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"hutch/aggd/wire"
	"hutch/cmd/hutchd/gateway"
	"hutch/fs"
	"hutch/mcpd"
	"hutch/mcpd/ledger"
	"hutch/mcpd/vmcp"
	"hutch/profiles"
)

// A Group is servers that are served as one: an endpoint without a VM. Its members are
// sessions of the servers' own endpoints, so that nothing of theirs is there twice.
type Group struct {
	*gateway.Gateway
	Name string

	w        *Workloads
	dir      string
	breakers *vmcp.Breakers
	turn     chan struct{} // holds a token: whoever has it begins, ends or changes the group
	renewing sync.Mutex    // held by the one that gives the endpoint its members

	written[*vmcp.Config] // whose mu guards what follows

	serves bool
	since  time.Time
	said   map[*wire.List][]string // what there was to decide about names
	names  map[string]wire.Item    // tools by what steps call them; nil: none is known yet
	wrong  map[string]error        // composite tools that cannot be offered
	news   bool                    // a renew is about to begin

	exchanges map[string]*exchange // by the server that is shown their tokens
}

// groupFile is a group's config in its folder.
const groupFile = "config.yaml"

// newGroup returns the group of a folder.
func (w *Workloads) newGroup(name string) *Group {
	g := &Group{Name: name, w: w, dir: w.groupDir(name), turn: make(chan struct{}, 1), since: time.Now()}
	g.breakers = vmcp.NewBreakers(vmcp.Circuit{})
	g.Gateway = gateway.New(&w.s.Service, gateway.Config{
		Kind: gateway.Group, Name: func() string { return name }, Dir: g.dir,
		Profile:     func() string { return profiles.Default },
		Running:     g.Serves,
		Idle:        func() bool { return !g.Serves() },
		LedgerLimit: func() int64 { return records },
		State:       func() ledger.Row { return ledger.Row{"state": g.state()} },
		Servers:     func(*profiles.Profile) []wire.Server { return g.servers() },
		Endpoint:    mcpd.Config{Guard: g.breakers.Begin, Changed: g.heard, Resolve: g.resolve, Stopped: g.stopped},
	})
	g.read("")
	return g
}

// Serves says whether the group's endpoint has begun.
func (g *Group) Serves() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.serves
}

func (g *Group) state() string {
	if g.Serves() {
		return "serving"
	}
	return "idle"
}

// Members returns the servers of the group, sorted by name.
func (g *Group) Members() []*Server {
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	return g.w.members(g.Name)
}

// Join has a server be a member of this group, and of no other.
func (g *Group) Join(ctx context.Context, server string) error {
	s, err := g.w.Server(server)
	if err != nil {
		return err
	}
	return s.join(ctx, g.Name)
}

// Leave has a member be in no group.
func (g *Group) Leave(ctx context.Context, server string) error {
	s, err := g.w.Server(server)
	switch {
	case err != nil:
		return err
	case s.group() != g.Name:
		return fmt.Errorf("%w: server %s is not in %s", fs.ErrNotExist, server, g)
	}
	return s.join(ctx, "")
}

// do does f when it is the caller's turn.
func (g *Group) do(ctx context.Context, f func() error) error {
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
		return f()
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-g.Context().Done():
		return fmt.Errorf("%w: %s", fs.ErrNotExist, g)
	}
}

// Start begins the group's endpoint, if it has not begun. It returns when the members
// have said what they offer, or a while after.
func (g *Group) Start(ctx context.Context) error {
	if g.Serves() {
		return nil
	}
	return g.do(ctx, func() error {
		if g.Serves() {
			return nil
		}
		g.Renew()
		g.enter(true)
		err := g.Configure(ctx)
		if err == nil {
			err = g.MCP.Start()
		}
		if err != nil {
			g.MCP.Stop()
			g.enter(false)
			return fmt.Errorf("%s: %w", g, err)
		}
		g.MCP.Settled(ctx)
		return nil
	})
}

// Stop ends the group's endpoint. Its members stay as they are.
func (g *Group) Stop(ctx context.Context) error {
	return g.do(ctx, func() error {
		if !g.Serves() {
			return nil
		}
		g.enter(false)
		return g.MCP.Stop()
	})
}

func (g *Group) enter(serves bool) {
	g.mu.Lock()
	g.serves, g.since = serves, time.Now()
	g.mu.Unlock()
	g.Tell(ledger.VMs, g.NewEvent(g.state(), ""))
}

// renew has the endpoint, if it has begun, be told its members anew, once for all that
// changes until that begins.
func (g *Group) renew() {
	g.mu.Lock()
	due := g.serves && !g.news
	g.news = g.news || due
	g.mu.Unlock()
	if !due {
		return
	}
	g.Later(func(ctx context.Context) error {
		g.renewing.Lock()
		defer g.renewing.Unlock()
		g.mu.Lock()
		g.news = false
		g.mu.Unlock()
		err := g.Configure(ctx)
		if err != nil && ctx.Err() == nil {
			g.LastErr.Set(err)
		}
		return err
	})
}

// settleTime is how long settle takes at most.
const settleTime = 10 * time.Second

// settle returns when the endpoint, if it has begun, has what its members offer now, or a
// while after. A renew that is under way may be of what they were before.
func (g *Group) settle(ctx context.Context) {
	if !g.Serves() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if g.Configure(ctx) == nil { // renew tells of what is wrong
		g.MCP.Settled(ctx)
	}
}

// SetConfig makes text the group's config, from now on. One that does not count is kept
// as it was written, and the one before stays in force: the error says why.
func (g *Group) SetConfig(ctx context.Context, text string) error {
	return g.do(ctx, func() error {
		if err := fs.WriteFile(filepath.Join(g.dir, groupFile), []byte(text), true); err != nil {
			return err
		}
		g.LastErr.Mended(g.ConfigErr())
		if err := g.read(text); err != nil {
			return err
		}
		for _, s := range g.Members() {
			s.regrouped()
		}
		if g.Serves() {
			if err := g.Configure(ctx); err != nil { // the config counts all the same
				g.LastErr.Set(err)
			}
		}
		return nil
	})
}

// read takes a config's text in.
func (g *Group) read(text string) error {
	c, err := vmcp.Parse([]byte(text))
	g.mu.Lock()
	g.text, g.bad = text, err
	if err == nil {
		g.config, g.said, g.names, g.wrong = c, make(map[*wire.List][]string), nil, make(map[string]error)
		g.endExchanges()
	}
	g.mu.Unlock()
	if err == nil {
		g.apply(c)
	}
	return err
}

// apply gives the endpoint what a config says.
func (g *Group) apply(c *vmcp.Config) {
	f := c.Operational.Failures
	g.breakers.Set(f.Circuit)
	g.MCP.SetWhole(f.Mode == vmcp.Fail)
	g.MCP.SetComposites(mcpd.Composites{
		Tools: c.Tools(),
		Find:  func(tool string) (server, own string, ok bool) { return g.find(c, tool) },
		Wrong: func(tool string, why error) {
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.config == c {
				g.wrong[tool] = why
			}
		},
	})
	g.MCP.SetArrange(func(list *wire.List, items []wire.Item) []wire.Item {
		arranged, said := c.Arrange(list, items)
		var names map[string]wire.Item
		if list == wire.Tools {
			names = c.Names(items)
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.config == c {
			g.said[list] = said
			if names != nil {
				g.names = names
			}
		}
		return arranged
	})
}

// find returns the server and the own name of the tool that a step calls by the name
// that clients have, or SERVER.TOOL.
func (g *Group) find(c *vmcp.Config, tool string) (server, own string, ok bool) {
	g.mu.Lock()
	it, ok := g.names[tool]
	ok = ok && g.config == c
	g.mu.Unlock()
	if ok {
		return it.Server, it.Original, true
	}
	server, name, ok := vmcp.Split(tool, func(server string) bool { return g.has(c, server) })
	return server, c.Tool(server, name), ok
}

// has says whether a server is a member, or one that only the config names.
func (g *Group) has(c *vmcp.Config, server string) bool {
	if s, err := g.w.Server(server); err == nil && s.group() == g.Name {
		return true
	}
	return slices.ContainsFunc(c.Backends, func(b vmcp.Backend) bool { return b.Name == server })
}

// Status is the state, then key value lines.
func (g *Group) Status() string {
	g.mu.Lock()
	c, since := g.config, g.since
	var notes []string
	if g.bad != nil {
		notes = append(notes, "the config as it was last written is not in force: "+fs.Text(g.bad))
	}
	notes = slices.Concat(notes, g.said[wire.Tools], g.said[wire.Prompts], c.Notes())
	wrong, unknown := maps.Clone(g.wrong), g.names == nil
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(g.Context(), time.Second) // for the aggregator to answer
	defer cancel()
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nsince %s\n%s", g.state(), since.UTC().Format(time.RFC3339Nano), g.CallLines())
	members := make(map[string]bool)
	for _, s := range g.Members() {
		members[s.Name] = true
		fmt.Fprintf(&b, "member %s %s circuit %s\n", s.Name, s.told(), g.breakers.State(s.Name))
		for _, why := range s.unlisted(ctx) {
			notes = append(notes, s.Name+": "+why)
		}
	}
	for _, backend := range c.Backends {
		if !members[backend.Name] {
			b.WriteString(g.backendStatus(ctx, backend.Name))
		}
	}
	fmt.Fprintf(&b, "tools %d\nsessions %d\n", len(g.MCP.Items(wire.Tools)), g.MCP.Sessions())
	for _, d := range c.CompositeTools {
		fmt.Fprintf(&b, "composite %s\n", d.Name)
		if err := wrong[d.Name]; err != nil {
			notes = append(notes, err.Error())
		}
	}
	has := func(server string) bool { return g.has(c, server) }
	calls := func(tool string) bool {
		_, _, ok := g.find(c, tool)
		return ok || unknown && !strings.Contains(tool, ".")
	}
	notes = append(notes, c.Strangers(has, func(server string) bool { return members[server] }, calls)...)
	for _, note := range notes {
		fmt.Fprintf(&b, "note %s\n", fs.QuoteLine(note))
	}
	return b.String()
}
