package sandbox

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
	"hutch/profiles"
)

// Reload gives a running VM the servers and the policy that its profile has
// now, tells what changed, and waits until the servers have settled.
func (v *Sandbox) Reload(ctx context.Context) error {
	if err := v.service.Profiles.Check(v.Config().Profile); err != nil {
		return err
	}
	if !v.Running() {
		return nil
	}
	was := v.profile.Load()
	if err := v.configure(ctx); err != nil {
		return err
	}
	if text := profiles.Changes(was, v.profile.Load()); text != "" {
		v.tell(ledger.VMs, v.event("reloaded", text))
	}
	v.MCP.Settled(ctx)
	return nil
}

// configure gives the endpoint what the VM's profile says, and the ledger
// what of it is never to be written.
func (v *Sandbox) configure(ctx context.Context) error {
	select {
	case v.configuring <- struct{}{}:
		defer func() { <-v.configuring }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	p, err := v.service.Profiles.Get(v.Config().Profile)
	if err != nil {
		return err
	}
	v.profile.Store(p)
	if out := v.proxy.Load(); out != nil {
		out.Set(network(p))
	}
	v.red.Add(p.Secrets()...)
	_, err = v.Ledger()
	v.setStorage(p.Storage)
	v.MCP.SetPending(p.MaxPending)
	v.MCP.SetCommands(dispatch.Config(p.Commands))
	return errors.Join(err, v.MCP.SetLimits(ctx, p.Limits), v.MCP.Reload(ctx, servers(p, v.service.cfg.Locald), p.Policy))
}

// Policy returns the policy that decides what the VM may, or, while it does
// not run, would if it could start.
func (v *Sandbox) Policy() (*policy.Policy, error) {
	if p := v.MCP.Policy(); p != nil && v.Running() {
		return p, nil
	}
	p, err := v.parsed(v.Config().Profile)
	if err != nil {
		return nil, err
	}
	return p.Policy, nil
}

// parsed returns a profile as its files are now, and fails where they do not
// parse: who tries a profile wants to know of what is written there.
func (v *Sandbox) parsed(name string) (*profiles.Profile, error) {
	if err := v.service.Profiles.Check(name); err != nil {
		return nil, err
	}
	return v.service.Profiles.Get(name)
}

// Replay tells which recorded requests a profile would decide otherwise, the
// VM's own, as it is now, where the name is empty.
func (v *Sandbox) Replay(ctx context.Context, name string) (string, error) {
	p, err := v.parsed(cmp.Or(name, v.Config().Profile))
	if err != nil {
		return "", err
	}
	db, release, err := v.HoldLedger()
	if err != nil {
		return "", err
	}
	defer release()
	return history.Replay(ctx, db, v.Name(), history.Profile{Name: p.Name, Policy: p.Policy, Network: p.Network, Cmd: dispatch.Config(p.Commands)})
}

// servers puts a profile's servers as the endpoint is told them, with the
// built-in tools, whose program is locald.
func servers(p *profiles.Profile, locald string) []wire.Server {
	var list []wire.Server
	for _, s := range p.Servers {
		list = append(list, s.Server)
	}
	if locald == "" {
		return list
	}
	return append(list, wire.Server{
		Name: wire.Local, Enabled: true, Source: "builtin", Shared: true,
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
