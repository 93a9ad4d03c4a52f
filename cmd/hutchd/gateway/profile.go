package gateway

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"

	"hutch/aggd/wire"
	"hutch/mcpd/dispatch"
	"hutch/mcpd/history"
	"hutch/mcpd/ledger"
	"hutch/mcpd/policy"
	"hutch/mcpd/redact"
	"hutch/mcpd/vmcp"
	"hutch/profiles"
	"hutch/profiles/permission"
)

// Reload gives an endpoint that runs the servers and the policy that its profile has
// now, tells what changed, and waits until the servers have settled.
func (g *Gateway) Reload(ctx context.Context) error {
	if err := g.service.Profiles.Check(g.cfg.Profile()); err != nil {
		return err
	}
	if !g.cfg.Running() {
		return nil
	}
	was := g.profile.Load()
	if err := g.Configure(ctx); err != nil {
		return err
	}
	if text := profiles.Changes(was, g.profile.Load()); text != "" {
		g.Tell(ledger.VMs, g.NewEvent("reloaded", text))
	}
	g.MCP.Settled(ctx)
	return nil
}

// Configure gives the endpoint what the profile says, and the ledger what of it is
// never to be written.
func (g *Gateway) Configure(ctx context.Context) error {
	select {
	case g.configuring <- struct{}{}:
		defer func() { <-g.configuring }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	p, err := g.service.Profiles.Get(g.cfg.Profile())
	if err != nil {
		return err
	}
	g.profile.Store(p)
	g.Hide(p.Secrets()...)
	g.credentials.Add(p.Credentials(redact.NamesSecret)...)
	g.red.Spare(p.References()...)
	if g.cfg.Configured != nil {
		g.cfg.Configured(p)
	}
	_, err = g.Ledger()
	g.arrange(p.SafeNames)
	g.MCP.SetFiles(strings.TrimSuffix(p.Files, profiles.AllFiles))
	g.MCP.SetPending(p.MaxPending)
	return errors.Join(err, g.MCP.SetLimits(ctx, p.Limits), g.MCP.Reload(ctx, g.servers(p), p.Policy))
}

// arrange gives the clients of a VM safe names of tools, or the full ones. A server or a
// group has a config that says the names.
func (g *Gateway) arrange(safe bool) {
	if g.cfg.Servers != nil || g.safe == safe {
		return
	}
	g.safe = safe
	if !safe {
		g.MCP.SetArrange(nil)
		return
	}
	c := vmcp.Safe()
	g.MCP.SetArrange(func(list *wire.List, items []wire.Item) []wire.Item {
		arranged, _ := c.Arrange(list, items)
		return arranged
	})
}

// Policy returns the policy that decides, or, of what does not run, would if it
// could start.
func (g *Gateway) Policy() (*policy.Policy, error) {
	if p := g.MCP.Policy(); p != nil && g.cfg.Running() {
		return p, nil
	}
	p, err := g.parsed(g.cfg.Profile())
	if err != nil {
		return nil, err
	}
	return p.Policy, nil
}

// parsed returns a profile as its files are now, and fails where they do not
// parse: who tries a profile wants to know of what is written there.
func (g *Gateway) parsed(name string) (*profiles.Profile, error) {
	if err := g.service.Profiles.Check(name); err != nil {
		return nil, err
	}
	return g.service.Profiles.Get(name)
}

// Replay tells which recorded requests a profile would decide otherwise, its
// own, as it is now, where the name is empty.
func (g *Gateway) Replay(ctx context.Context, name string) (string, error) {
	p, err := g.parsed(cmp.Or(name, g.cfg.Profile()))
	if err != nil {
		return "", err
	}
	db, release, err := g.HoldLedger()
	if err != nil {
		return "", err
	}
	defer release()
	return history.Replay(ctx, db, g.Whose(), history.Profile{Name: p.Name, Policy: p.Policy, Network: p.Network, Cmd: dispatch.Config(p.Commands)})
}

// servers returns those that a profile gives the endpoint.
func (g *Gateway) servers(p *profiles.Profile) []wire.Server {
	if g.cfg.Servers != nil {
		return g.cfg.Servers(p)
	}
	return servers(p, g.service.Locald)
}

// servers puts a profile's servers as the endpoint is told them, with the
// built-in tools, whose program is locald.
func servers(p *profiles.Profile, locald string) []wire.Server {
	var list []wire.Server
	for _, s := range p.Servers {
		list = append(list, place(s, permission.TermsOf(p)))
	}
	if locald == "" {
		return list
	}
	return append(list, wire.Server{
		Name: wire.Local, Enabled: true, Source: "builtin", Shared: true, Pin: wire.PinNone,
		Program: wire.Program{Command: locald, Args: localArgs(p), Confined: true},
	})
}

// localArgs are what the built-in tools are told where it is not the default.
func localArgs(p *profiles.Profile) (args []string) {
	h := p.HTTP
	if len(h.Allow) > 0 {
		args = append(args, "-allow-private", strings.Join(h.Allow, ","))
	}
	if h.MaxBytes > 0 {
		args = append(args, "-max-body", strconv.FormatInt(h.MaxBytes, 10))
	}
	if h.Timeout > 0 {
		args = append(args, "-timeout", h.Timeout.String())
	}
	if p.Policy.LooksInto(policy.OnRequest) || p.Policy.Asks(policy.OnRequest) {
		args = append(args, "-stay")
	}
	return args
}
