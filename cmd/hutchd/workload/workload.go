// Package workload runs the programs of MCP servers in sandboxes of their own.
//
// Such a sandbox is an ordinary VM, called server-SERVER of a server of servers/, and of
// one of a VM's profile server-VM-SERVER or, where several VMs share it,
// server-shared-SERVER. Its workspace is the home of the program and keeps what that
// writes, as the caches of npm, uv and go, from one start to the next. What it may reach
// and see, a profile says that is made for it and that no file has.
package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"hutch/aggd/programs"
	"hutch/aggd/wire"
	"hutch/cmd/hutchd/gateway"
	"hutch/cmd/hutchd/sandbox"
	"hutch/fs"
	"hutch/mcpd/policy"
	"hutch/profiles"
	"hutch/profiles/permission"
	"hutch/profiles/registry"
	"hutch/vmm/image"
)

// Workloads are the sandboxes of MCP servers.
type Workloads struct {
	s         *sandbox.Service
	registry  *registry.Store
	dir       string // with a folder for each server
	groupsDir string // and for each group

	opened chan struct{} // closed when the sandboxes, servers and groups are there

	mu      sync.Mutex // guards what follows
	boxes   map[place]*box
	servers map[string]*Server
	groups  map[string]*Group
	closed  bool
}

var errEnding = fmt.Errorf("%w: hutchd is ending", fs.ErrBusy)

// A box is one of these sandboxes.
type box struct {
	turn chan struct{} // holds a token: whoever has it makes, starts or ends the sandbox
	text string        // what it was made by; guarded by turn
	gone bool          // the place is nobody's any more; guarded by turn

	// guarded by the mu of Workloads
	askers map[*gateway.Gateway]asker // who last had a program started
	told   map[string]wire.NetEvent   // what it was denied last, by the host
}

// New returns the Workloads of a service that is being opened. State is where the
// servers and groups are kept; entries are those that servers can be run by the names
// of.
func New(s *sandbox.Service, state string, entries *registry.Store) *Workloads {
	w := &Workloads{
		s: s, registry: entries, dir: filepath.Join(state, "servers"), groupsDir: filepath.Join(state, "groups"),
		opened: make(chan struct{}), boxes: make(map[place]*box), servers: make(map[string]*Server), groups: make(map[string]*Group),
	}
	s.Denied = func(v *sandbox.Sandbox, e wire.NetEvent) { w.denied(v.Config().Profile, e) }
	return w
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
	select {
	case <-w.opened: // a VM that is adopted may ask for its servers before
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	b, err := profiles.ParseBox(s.Sandbox)
	switch {
	case err != nil:
		return nil, fmt.Errorf("sandbox of server %s: %w", s.Server, err)
	case b.Wrong != "":
		return nil, errors.New(b.Wrong)
	}
	at := place{ofVM, g.Of(), s.Server}
	switch {
	case b.Server != "":
		return w.link(g, b.Server, s)
	case g.Kind() == gateway.Server:
		at = ofServer(g.Of())
	case b.Shared:
		at = place{kind: common, server: s.Server}
	}
	a := w.asker(g, s.Server, b)
	for _, value := range s.Env {
		a.given = append(a.given, profiles.Parts(value)...)
	}
	if err := a.check(b, s.Program); err != nil {
		return nil, err
	}
	if b.Image, err = w.named(ctx, b, func(text string) { fmt.Fprintf(g.AggLog(), "%s: %s\n", s.Server, text) }); err != nil {
		return nil, err
	}
	v, err := w.ready(ctx, at, b)
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", at.vm(), err)
	}
	w.ask(at, a)
	s.Gone = w.gone(at, a, b, s)
	s, given, err := w.completed(v, b, s)
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", at.vm(), err)
	}
	return v.StartProgram(ctx, fmt.Sprintf("mcp-%d", w.s.NextID()), given, s)
}

// home is where the guest has the workspace.
const home = "/workspace"

// certificates is the file of the authorities that the machine trusts, as the image
// host has it.
const certificates = "/etc/ssl/certs/ca-certificates.crt"

// environment is what each program gets beside its own variables: its home, and
// what has Node use the proxy and trust whom the machine trusts.
func environment() map[string]string {
	return map[string]string{
		"HOME": home, "NODE_USE_ENV_PROXY": "1", "NODE_EXTRA_CA_CERTS": certificates, "SSL_CERT_FILE": certificates,
	}
}

// link makes a session of a server of servers/ in the place of a program.
func (w *Workloads) link(g *gateway.Gateway, server string, s programs.Start) (programs.Task, error) {
	to, err := w.Server(server)
	if err != nil {
		return nil, err
	}
	if state := to.told(); !state.Live() {
		return nil, notServed(server, state)
	}
	l, err := to.Link(s, g.String())
	if err != nil {
		return nil, err
	}
	if !to.told().Live() { // it was stopped meanwhile, and its links ended
		l.Terminate()
	}
	return l, nil
}

// ready returns the sandbox of a place, which runs as b says.
func (w *Workloads) ready(ctx context.Context, at place, b profiles.Box) (*sandbox.Sandbox, error) {
	name := at.vm()
	own, err := w.take(ctx, at)
	if err != nil {
		return nil, err
	}
	defer own.give()
	switch {
	case w.isClosed():
		return nil, errEnding
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	v, err := w.s.Lookup(name)
	is := err == nil
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case is && v.Config().Profile != at.profile():
		return nil, fmt.Errorf("%w: that vm is not the server's: hutch fork it under another name and remove it, or rename the server", fs.ErrExist)
	}
	if text := b.Text(); own.text != text || !is {
		own.text = "" // until it is so
		if v, err = w.arrange(ctx, v, at, b); err != nil {
			return nil, err
		}
		own.text = text
		w.mu.Lock()
		own.told = nil
		w.mu.Unlock()
	}
	if v.Running() {
		return v, nil
	}
	return v, v.Start(ctx)
}

// take waits for the caller's turn with the sandbox of a place, which ends with give.
func (w *Workloads) take(ctx context.Context, at place) (*box, error) {
	for {
		own := w.box(at)
		select {
		case own.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if !own.gone {
			return own, nil
		}
		own.give() // another is in its place
	}
}

func (b *box) give() { <-b.turn }

func (w *Workloads) box(at place) *box {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.boxes[at]
	if b == nil {
		b = &box{turn: make(chan struct{}, 1)}
		w.boxes[at] = b
	}
	return b
}

func (w *Workloads) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// idleTime is how long a sandbox runs on when nothing in it does.
const idleTime = 2 * time.Minute

// arrange returns a sandbox of a place that is as b says when it starts next: v, or
// where v is nil or on another image, a new one. What was written over one image means
// nothing over another.
func (w *Workloads) arrange(ctx context.Context, v *sandbox.Sandbox, at place, b profiles.Box) (*sandbox.Sandbox, error) {
	if v != nil && v.Running() {
		if err := v.Stop(ctx); err != nil {
			return nil, err
		}
	}
	config, err := w.config(at.profile(), b)
	if err != nil {
		return nil, err
	}
	if v != nil && cmp.Or(v.Config().Image, image.Host) == cmp.Or(b.Image, image.Host) {
		return v, v.SetConfig(ctx, config)
	}
	if v != nil {
		if err := v.Destroy(ctx); err != nil {
			return nil, err
		}
	}
	return w.s.MakeWith(ctx, at.vm(), config)
}

// config returns the config of a sandbox, and has its profile, called name, be there.
func (w *Workloads) config(name string, b profiles.Box) (string, error) {
	profile, err := profileOf(name, b)
	if err != nil {
		return "", err
	}
	w.s.Profiles.Provide(profile)
	c := profiles.Config{Image: b.Image, Profile: profile.Name, Net: b.Net, RAM: b.RAM, Disk: b.Disk, Idle: idleTime}
	if w.s.Locald != "" { // what may reach nothing is told so by the proxy, which tells of it
		c.Net = profiles.NetProxy
	}
	for _, m := range b.Mounts {
		if real, err := filepath.EvalSymlinks(m.Host); err == nil {
			if err := permission.CheckHost(real); err != nil {
				return "", fmt.Errorf("%w: mount %s %w", fs.ErrNotPermitted, m.Host, err)
			}
		}
		word := m.Host + ":" + m.Guest
		if m.ReadOnly {
			word += ":ro"
		}
		if err := c.Set("mount", fs.QuoteAll([]string{word})); err != nil {
			return "", err
		}
	}
	return c.Text(), nil
}

// profileOf makes the profile of a sandbox, called name: its programs may call no tool, and
// reach what b says.
func profileOf(name string, b profiles.Box) (*profiles.Profile, error) {
	p := &profiles.Profile{Name: name, Network: b.Network, Security: policy.Config{Default: policy.Block}}
	at, _ := placeOf(name)
	p.Network.Profile = "of server " + at.server
	p.Network.Advice = cmp.Or(b.Network.Advice, "see the log of server "+at.server+", which has what to add")
	var err error
	p.Policy, err = policy.New(p.Security)
	return p, err
}
