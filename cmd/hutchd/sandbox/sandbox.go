package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hutch/aggd/confine"
	"hutch/aggd/egress"
	"hutch/aggd/storage/remote"
	"hutch/cmd/hutchd/gateway"
	"hutch/fs"
	"hutch/fs/folder"
	"hutch/mcpd"
	"hutch/mcpd/attest"
	"hutch/mcpd/dispatch"
	"hutch/mcpd/ledger"
	"hutch/profiles"
	"hutch/vmm"
	"hutch/vmm/process"
)

// A Sandbox is a VM with all that belongs to it. Its methods may be called
// concurrently.
type Sandbox struct {
	*vmm.VM
	*gateway.Gateway // whose endpoint begins and ends with the machine
	gateway.Held

	service *Service

	starting atomic.Pointer[time.Time] // when it began to start; nil: it does not

	programs atomic.Int64 // of MCP servers that run

	calls atomic.Int64 // MCP calls that had begun when that was asked last

	mu                sync.Mutex // guards what follows, and the fields of execs and connections that say so
	execs             map[string]*Exec
	connections       map[string]*TCP
	makingConnections int                       // how many are being made
	causes            map[string]string         // the trace ids of the calls that take or drop a snapshot now, by its name
	folders           map[string]*folder.Folder // nil: the VM is gone

	lastExec, lastTCP atomic.Uint64 // the numbers of the last anonymous ones

	conns    map[uint32]int // connections of the guest, by port; guarded by the mu of the service's limiter
	refusing atomic.Int32   // connections that are being told why there is no room

	guestEnvMu sync.Mutex // guards guestEnv; held while the guest is told of env/
	guestEnv   guestEnv

	proxy atomic.Pointer[egress.Proxy] // nil: there is none

	storeMu sync.Mutex      // guards what follows
	stores  bool            // there may be storage: between Begin and End
	store   *remote.Storage // nil: there is none
}

// newSandbox returns m with what belongs to it, of which nothing has begun.
func newSandbox(s *Service, m *vmm.VM) *Sandbox {
	v := &Sandbox{
		VM: m, service: s,
		execs: map[string]*Exec{}, causes: map[string]string{}, connections: map[string]*TCP{}, folders: map[string]*folder.Folder{},
		conns: map[uint32]int{},
	}
	v.Unheld = v.unheld
	v.Gateway = gateway.New(&s.Service, gateway.Config{
		Kind: gateway.VM, Name: m.Name, Dir: m.Dir(),
		Profile:     func() string { return m.Config().Profile },
		Running:     v.Running,
		Idle:        func() bool { return slices.Contains(idle, m.State()) },
		LedgerLimit: m.LedgerLimit,
		State: func() ledger.Row {
			c := m.Config()
			return ledger.Row{"state": string(m.State()), "driver": c.Driver, "image": c.Image}
		},
		Configured: v.configured,
		Hold:       v.Hold,
		Attest:     attest.New(attest.Config{Key: s.signing, Path: filepath.Join(m.Dir(), "attested"), VM: m.Name}),
		Endpoint:   mcpd.Config{Work: m.WorkDir(), Snapshots: v.snapshotsFor(), Run: v.run, Before: v.beforeCall},
	})
	return v
}

// idle are the states of a VM that has no machine.
var idle = []vmm.State{vmm.Created, vmm.Stopped, vmm.Suspended, vmm.Failed}

// configured is told the profile that the VM's endpoint is to be configured by.
func (v *Sandbox) configured(p *profiles.Profile) {
	if out := v.proxy.Load(); out != nil {
		out.Set(network(p))
	}
	v.setStorage(p.Storage)
	v.MCP.SetCommands(dispatch.Config(p.Commands))
}

// Begin readies the sandbox for a machine. It is a method of vmm.Sidecar, as are
// End, Close, Conn, Helpers, Busy and Event: package vmm calls it, before a
// machine is started (VM.start in vmm/start.go) or restored (vmm/suspend.go),
// and when one that runs is adopted (vmm/adopt.go).
//
// What is left of the machine before is forgotten, the ledger learns its limit,
// the profile says which servers there are and what is secret, and then the
// proxy and the endpoint with its aggregator are started, in this order.
func (v *Sandbox) Begin(ctx context.Context) error {
	v.Renew()
	if v.State() != vmm.Suspended { // whose commands only wait
		v.mu.Lock()
		clear(v.execs)
		v.mu.Unlock()
	}
	v.dropTCPs()
	env, _ := v.environment() // an error is told when a command starts
	v.guestEnvMu.Lock()
	v.guestEnv = guestEnv{env: env}
	v.guestEnvMu.Unlock()
	v.storeMu.Lock()
	v.stores = true
	v.storeMu.Unlock()
	err := errors.Join(v.Configure(ctx), v.startProxy())
	if profiles.IsProvided(v.Config().Profile) { // an MCP server asks for no tools
		return err
	}
	return errors.Join(err, v.MCP.Start())
}

// End ends what lived with the machine: the proxy, then the endpoint's
// sessions and its aggregator. Package vmm calls it when the machine has ended
// or is let go of (VM.endSidecar in vmm/sidecar.go).
func (v *Sandbox) End() {
	v.stopProxy()
	v.stopStorage()
	v.MCP.Stop()
}

// Close ends all that belongs to the sandbox, and waits for it: what is done
// for clients, the proxy, the gateway, and last the folders.
// Package vmm calls it when the VM is removed (VM.remove in vmm/verbs.go), and
// when the table closes.
func (v *Sandbox) Close() {
	v.Quit()
	v.stopProxy()
	v.stopStorage()
	v.Gateway.Close()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range v.folders {
		f.Close()
	}
	v.folders = nil
}

// Conn takes a connection that the guest made to one of its ports. It does
// not wait for its end: nobody else could connect until then.
func (v *Sandbox) Conn(port uint32, c net.Conn) {
	var do func(context.Context, net.Conn) error
	switch out := v.proxy.Load(); {
	case port == vmm.PortMCP:
		do = v.MCP.Serve
	case port == vmm.PortProxy && out != nil:
		do = out.Serve
	default:
		c.Close()
		return
	}
	if err := v.service.limiter.acquire(v, port); err != nil {
		v.turnAway(port, c, err)
		return
	}
	if !v.Later(func(ctx context.Context) error {
		defer v.service.limiter.release(v, port)
		return do(ctx, c)
	}) {
		v.service.limiter.release(v, port)
		c.Close()
	}
}

// Helpers returns the processes that serve the VM beside its machine.
func (v *Sandbox) Helpers() []int {
	var pids []int
	for _, p := range v.MCP.Programs() {
		pids = append(pids, p.PID)
	}
	for _, pid := range []int{v.MCP.AggregatorPID(), v.proxyPID(), v.storagePID()} {
		if pid != 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Busy says whether an MCP server runs here, an MCP call is under way, or one began
// since Busy was asked last.
func (v *Sandbox) Busy() bool {
	if v.programs.Load() > 0 {
		return true
	}
	n := v.MCP.Count()
	return v.calls.Swap(n.Begun) != n.Begun || n.Begun > n.Allowed+n.Denied+n.Failed
}

// Running says whether the VM has a machine that was not told to end.
func (v *Sandbox) Running() bool { return v.State() == vmm.Running || v.State() == vmm.Starting }

// Status is what the VM says of itself, then what serves it, and what confines
// those of these that reach the network.
func (v *Sandbox) Status() string {
	var b strings.Builder
	b.WriteString(v.VM.Status() + v.RecordsLine() + v.CallLines())
	aggregator, proxy, servers := v.MCP.AggregatorPID(), v.proxyPID(), v.MCP.Programs()
	store := v.storagePID()
	if aggregator != 0 {
		fmt.Fprintf(&b, "aggregator %d\nsessions %d\n", aggregator, v.MCP.Sessions())
	}
	for _, p := range servers {
		fmt.Fprintf(&b, "server %s %d\n", p.Server, p.PID)
	}
	if proxy != 0 {
		fmt.Fprintf(&b, "proxy %d\n", proxy)
	}
	if store != 0 {
		fmt.Fprintf(&b, "storage %d\n", store)
	}
	confined(&b, "aggregator", aggregator)
	for _, p := range servers {
		if p.Confined {
			confined(&b, p.Server, p.PID)
		}
	}
	confined(&b, "proxy", proxy)
	confined(&b, "storage", store)
	if why := v.MCP.AggregatorTrouble(); why != "" {
		b.WriteString("aggregator down: " + strings.ReplaceAll(why, "\n", "; ") + "\n")
	}
	return b.String()
}

// confined adds the line that says what confines a process.
func confined(b *strings.Builder, name string, pid int) {
	if pid == 0 {
		return
	}
	if state := confine.State(pid); state != "" {
		fmt.Fprintf(b, "confined %s %s\n", name, state)
	}
}

// ErrText is the last error that was set, or what was found wrong with the VM
// before anyone asked.
func (v *Sandbox) ErrText() string {
	text := v.LastErr.Text()
	if err := v.Err(); text == "" && err != nil {
		text = fs.Text(err) + "\n"
	}
	return text
}

// unheld is called when the last of those that keep the VM has let go.
func (v *Sandbox) unheld() {
	if v.Anonymous() {
		v.service.Later(v.Discard)
	}
}

// Locked tells that a client of the host writes a file of the workspace under
// a lock, if the guest, which does not see the lock, writes it too.
func (v *Sandbox) Locked(file string, dev, ino uint64) {
	for _, pid := range v.PIDs() {
		if process.Writes(pid, dev, ino) {
			v.Trouble("locks", fmt.Sprintf("work/%s is written here, under a lock, and in the guest, which does not see it", file))
			return
		}
	}
}

// Folder returns one of the host's folders that belong to the VM, known by
// key; open opens it when it is asked for first, and Close closes it.
func (v *Sandbox) Folder(key string, open func() (*folder.Folder, error)) (*folder.Folder, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.folders == nil {
		return nil, fmt.Errorf("%w: vm %s is gone", fs.ErrNotExist, v.Name())
	}
	if f := v.folders[key]; f != nil {
		return f, nil
	}
	f, err := open()
	if err == nil {
		v.folders[key] = f
	}
	return f, err
}

// ForgetFolder has a folder opened anew when it is next asked for. Who is in
// the old one may stay; it is closed when nobody is.
func (v *Sandbox) ForgetFolder(key string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.folders, key)
}
