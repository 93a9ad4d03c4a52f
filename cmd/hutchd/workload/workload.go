// Package workload runs the programs of MCP servers in sandboxes of their own.
//
// Such a sandbox is an ordinary VM, called server-VM-SERVER or, where several VMs
// share it, server-SERVER: its workspace is the home of the program and keeps what
// that writes, as the caches of npm, uv and go, from one start to the next. What it
// may reach and see, a profile says that is made for it and that no file has.
package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"hutch/aggd/programs"
	"hutch/cmd/hutchd/gateway"
	"hutch/cmd/hutchd/sandbox"
	"hutch/fs"
	"hutch/mcpd/policy"
	"hutch/profiles"
)

// Workloads are the sandboxes of MCP servers.
type Workloads struct {
	s *sandbox.Service

	mu     sync.Mutex // guards what follows
	boxes  map[string]*box
	closed bool
}

// A box is one of these sandboxes.
type box struct {
	owner string        // the name of the VM whose it is; "": several share it
	turn  chan struct{} // holds a token: whoever has it makes, starts or ends the sandbox
	text  string        // what it was made by; guarded by turn
}

// New returns the Workloads of a service, of which none is started yet.
func New(s *sandbox.Service) *Workloads {
	return &Workloads{s: s, boxes: make(map[string]*box)}
}

// Start starts a program of a gateway's server in its sandbox. It is what
// gateway.Service has to start them.
func (w *Workloads) Start(ctx context.Context, g *gateway.Gateway, s programs.Start) (programs.Task, error) {
	p, err := w.start(ctx, g, s)
	if err != nil {
		s.In.Close()
		s.Out.Close()
		return nil, err
	}
	return p, nil
}

func (w *Workloads) start(ctx context.Context, g *gateway.Gateway, s programs.Start) (programs.Task, error) {
	b, err := profiles.ParseBox(s.Sandbox)
	if err == nil && b.Wrong != "" {
		err = errors.New(b.Wrong)
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox of server %s: %w", s.Server, err)
	}
	owner := g.Of()
	if b.Shared {
		owner = ""
	}
	v, err := w.ready(ctx, owner, s.Server, b)
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", nameOf(owner, s.Server), err)
	}
	return v.StartProgram(ctx, fmt.Sprintf("mcp-%d", w.s.NextID()), environment(), s)
}

// nameOf returns the name of the VM of an owner's server.
func nameOf(owner, server string) string {
	if owner == "" {
		return "server-" + server
	}
	return "server-" + owner + "-" + server
}

// profileName returns the name of the profile of that VM, which says whose it is.
func profileName(owner, server string) string { return profiles.Provided + owner + ":" + server }

// ownerOf returns whose a VM is by the name of its profile; ok is false for a VM
// that is no server's.
func ownerOf(profile string) (owner string, ok bool) {
	name, ok := strings.CutPrefix(profile, profiles.Provided)
	owner, _, _ = strings.Cut(name, ":")
	return owner, ok
}

// home is where the guest has the workspace.
const home = "/workspace"

// environment is what each program gets beside its own variables: its home, and
// what has Node use the proxy.
func environment() map[string]string {
	return map[string]string{"HOME": home, "NODE_USE_ENV_PROXY": "1"}
}

// ready returns the sandbox of an owner's server, which runs as b says.
func (w *Workloads) ready(ctx context.Context, owner, server string, b profiles.Box) (*sandbox.Sandbox, error) {
	name := nameOf(owner, server)
	own, err := w.box(name, owner)
	if err != nil {
		return nil, err
	}
	select {
	case own.turn <- struct{}{}:
		defer func() { <-own.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	v, err := w.s.Lookup(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		v, err = w.s.Make(ctx, name)
		own.text = ""
	case err == nil && v.Config().Profile != profileName(owner, server):
		err = fmt.Errorf("%w: that vm is somebody's: rename it, or the server", fs.ErrExist)
	}
	if err != nil {
		return nil, err
	}
	text := b.Text()
	if own.text != text {
		if err := w.arrange(ctx, v, profileName(owner, server), b); err != nil {
			return nil, err
		}
		own.text = text
	}
	if v.Running() {
		return v, nil
	}
	return v, v.Start(ctx)
}

func (w *Workloads) box(name, owner string) (*box, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, fmt.Errorf("%w: hutchd is ending", fs.ErrBusy)
	}
	b := w.boxes[name]
	if b == nil {
		b = &box{owner: owner, turn: make(chan struct{}, 1)}
		w.boxes[name] = b
	}
	return b, nil
}

// idleTime is how long a sandbox runs on when nothing in it does.
const idleTime = 2 * time.Minute

// arrange has a sandbox be as b says when it starts next.
func (w *Workloads) arrange(ctx context.Context, v *sandbox.Sandbox, name string, b profiles.Box) error {
	if v.Running() {
		if err := v.Stop(ctx); err != nil {
			return err
		}
	}
	profile, err := profileOf(name, b)
	if err != nil {
		return err
	}
	w.s.Profiles.Provide(profile)
	c := profiles.Config{Image: b.Image, Profile: profile.Name, Net: b.Net, Idle: idleTime}
	for _, m := range b.Mounts {
		word := m.Host + ":" + m.Guest
		if m.ReadOnly {
			word += ":ro"
		}
		if err := c.Set("mount", fs.QuoteAll([]string{word})); err != nil {
			return err
		}
	}
	return v.SetConfig(ctx, c.Text())
}

// profileOf makes the profile of a sandbox, called name: its programs may call no tool, and
// reach what b says.
func profileOf(name string, b profiles.Box) (*profiles.Profile, error) {
	p := &profiles.Profile{Name: name, Network: b.Network, Security: policy.Config{Default: policy.Block}}
	p.Network.Profile = p.Name
	var err error
	p.Policy, err = policy.New(p.Security)
	return p, err
}
