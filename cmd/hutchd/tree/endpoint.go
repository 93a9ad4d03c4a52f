package tree

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strconv"

	"hutch/aggd/wire"
	"hutch/fs/folder"
	"hutch/mcpd"
	"hutch/mcpd/policy"
	"hutch/profiles"
	"hutch/vmm"
)

// newVM returns m with its endpoint, which is not started.
func newVM(s *Server, m *vmm.VM) *vm {
	v := &vm{VM: m, s: s, id: s.next(), execs: map[string]*exec{}, sessions: map[string]*session{}, folders: map[string]*folder.Folder{}}
	v.ctx, v.cancel = context.WithCancel(context.Background())
	v.repeats.tell, v.repeats.begin = v.repeated, v.work.begin
	v.aggLog.path = filepath.Join(m.Dir(), "log", "agg")
	v.mcp = mcpd.New(mcpd.Config{
		VM:        m.Name,
		Version:   Version,
		Work:      m.WorkDir(),
		Snapshots: snapshotsOf(m),
		Ledger:    v.db,
		AggdPath:  s.cfg.Aggd,
		Log:       s.log.With("vm", m.Name()),
		AggLog:    &v.aggLog,
		Event:     v.alert,
		Trouble:   v.trouble,
	})
	return v
}

// starting readies the endpoint for a machine that is about to start.
func (v *vm) starting(ctx context.Context) error {
	v.repeats.flush()
	v.limitLedger()
	if v.State() != vmm.Suspended {
		v.mu.Lock()
		clear(v.execs)
		v.mu.Unlock()
	}
	env, _ := v.environment() // an error is told when a command starts
	v.telling.Lock()
	v.told = told{env: env}
	v.telling.Unlock()
	// A VM that is adopted runs whatever is amiss, and then is served as far
	// as that goes.
	return errors.Join(v.configure(ctx), v.startProxy(), v.mcp.Start(ctx))
}

// helpers are the processes that serve the VM beside its machine.
func (v *vm) helpers() []int {
	var pids []int
	for _, pid := range []int{v.mcp.AggregatorPID(), v.proxyPID()} {
		if pid != 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// busy says whether an MCP call is under way, or began since busy was asked
// last.
func (v *vm) busy() bool {
	n := v.mcp.Count()
	return v.calls.Swap(n.Begun) != n.Begun || n.Begun > n.Allowed+n.Denied+n.Failed
}

// reload gives a running VM the servers that its profile names now, and waits
// until they have settled.
func (v *vm) reload(ctx context.Context) error {
	if err := v.s.profiles.Check(v.Config().Profile); err != nil {
		return err
	}
	if !v.running() {
		return nil
	}
	if err := v.configure(ctx); err != nil {
		return err
	}
	v.mcp.Settled(ctx)
	return nil
}

// configure gives the endpoint what the VM's profile says, and the ledger
// what of it is never to be written.
func (v *vm) configure(ctx context.Context) error {
	p, err := v.s.profiles.Get(v.Config().Profile)
	if err != nil {
		return err
	}
	if out := v.egress(); out != nil {
		out.Set(network(p))
	}
	_, err = v.dbWithout(p.Secrets())
	v.mcp.SetPending(p.MaxPending)
	return errors.Join(err, v.mcp.Reload(ctx, servers(p), policyOf(p)))
}

// serve takes a connection that the guest made to one of its ports. It does
// not wait for its end: nobody else could connect until then.
func (v *vm) serve(port uint32, c net.Conn) {
	var do func(context.Context, net.Conn) error
	switch out := v.egress(); {
	case port == vmm.PortMCP:
		do = v.mcp.Serve
	case port == vmm.PortProxy && out != nil:
		do = out.Serve
	default:
		c.Close()
		return
	}
	if err := v.s.crowd.enter(v, port); err != nil {
		v.turnAway(port, c, err)
		return
	}
	if !v.later(func(ctx context.Context) error {
		defer v.s.crowd.leave(v, port)
		return do(ctx, c)
	}) {
		v.s.crowd.leave(v, port)
		c.Close()
	}
}

// stopped ends what lived with the machine. The commands of a suspended VM
// only wait.
func (v *vm) stopped() {
	v.stopProxy()
	v.mcp.Stop()
	if v.State() == vmm.Suspended {
		return
	}
	v.mu.Lock()
	clear(v.execs)
	v.mu.Unlock()
}

// later does f on a goroutine that the VM's end waits for, or not at all after
// that.
func (v *vm) later(f func(context.Context) error) bool {
	return v.work.begin(func() {
		if err := f(v.ctx); err != nil {
			v.s.log.Debug("not done", "vm", v.Name(), "err", err)
		}
	})
}

// close ends all that was done for the VM: first its goroutines, then the
// proxy, the endpoint, the ledger and the folders.
func (v *vm) close() {
	v.cancel()
	v.work.end()
	v.stopProxy()
	v.mcp.Close()
	v.repeats.close()
	v.closeLedger()
	v.aggLog.Close()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range v.folders {
		f.Close()
	}
	v.folders = nil
}

// servers puts a profile's servers as aggd is told them, with what the
// built-in tools may do.
func servers(p *profiles.Profile) []wire.Server {
	var list []wire.Server
	for _, s := range p.Servers {
		list = append(list, wireServer(s))
	}
	if h := p.HTTP; len(h.Allow) > 0 || h.MaxBytes > 0 || h.Timeout > 0 {
		list = append(list, localServer(h))
	}
	return list
}

// localServer defines the built-in tools with limits that are not the default.
func localServer(h profiles.HTTP) wire.Server {
	s := wire.Server{Name: wire.Local, Enabled: true, Source: "builtin", AllowPrivate: h.Allow}
	if h.MaxBytes > 0 {
		s.Args = append(s.Args, "-max-body", strconv.FormatInt(h.MaxBytes, 10))
	}
	if h.Timeout > 0 {
		s.Args = append(s.Args, "-timeout", h.Timeout.String())
	}
	return s
}

func wireServer(s profiles.Server) wire.Server {
	return wire.Server{
		Name: s.Name, URL: s.URL, Type: s.Transport, Headers: s.Headers, BearerToken: s.BearerToken,
		Command: s.Command, Args: s.Args, Env: s.Env, Dir: s.Dir, Enabled: s.Enabled, Source: s.Source,
		IdleTimeout: wire.Duration(s.IdleTimeout), ConnectTimeout: wire.Duration(s.ConnectTimeout),
		CallTimeout: wire.Duration(s.CallTimeout),
	}
}

func policyOf(p *profiles.Profile) *policy.Policy {
	var rules []policy.Rule
	for _, s := range p.Servers {
		rules = append(rules, policy.Rule{Server: s.Name, Allowed: s.AllowedTools, Blocked: s.BlockedTools})
	}
	return policy.New(rules)
}
