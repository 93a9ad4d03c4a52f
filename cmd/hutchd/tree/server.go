// Package tree serves sandboxes as a tree of files: tree.go declares every file,
// the others have what the files do. The manual is hutch.4.
package tree

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hutch/fs"
	"hutch/fs/folder"
	"hutch/mcpd/ledger"
	"hutch/profiles"
	"hutch/vmm"
	"hutch/vmm/cgroup"
)

// Version is the version of hutch.
const Version = fs.Version

// Config says what a Server stands on.
type Config struct {
	State   string       // folder of the service's state
	Drivers []vmm.Driver // what can run VMs, the default first
	Groups  *cgroup.Root // makes control groups for VMs; nil: there are none
	Aggd    string       // path of the aggregator program
	Locald  string       // path of the proxy's program
	Log     *slog.Logger
	Level   *slog.LevelVar
	// ServiceLog is where Log writes, and CrashLog the file that the Go
	// runtime writes to when it dies.
	ServiceLog *fs.Log
	CrashLog   string
	Mount      func() string // where the tree is mounted, or none, for ctl to tell
	Listen     string        // where 9P is served, for ctl to tell
	Shutdown   func()        // ends the service; called by the ctl message
	// Gone is told of what went from the tree, or is another now, without the
	// client that has it cached: its path. Nil is fine.
	Gone  func(path string)
	Conns int // most connections of guests; 0: half of what descriptors there are
	// Gauges adds lines to metrics: the frontends' counters.
	Gauges func() []Metric
}

// A Server is hutch's tree and what stands behind it.
type Server struct {
	cfg        Config
	log        *slog.Logger
	tree       *fs.Tree[at]
	table      *vmm.Table
	profiles   *profiles.Store
	profileDir *folder.Folder
	events     *fs.Log
	err        lastErr
	began      time.Time
	count      counters
	crowd      crowd

	ids  atomic.Uint64 // numbers of objects, never used twice
	work work

	mu    sync.Mutex        // guards what follows
	boxes map[*vmm.VM]*vm   // the VMs as the tree has them
	items map[string]uint64 // numbers of generated entries that are no objects
}

// New opens the state folder and returns the tree of it.
func New(cfg Config) (*Server, error) {
	s := &Server{
		cfg: cfg, log: cfg.Log, events: fs.NewLog(maxEvents), began: time.Now(),
		boxes: map[*vmm.VM]*vm{}, items: map[string]uint64{},
	}
	if s.crowd.most = cfg.Conns; s.crowd.most == 0 {
		s.crowd.most = mostConns()
	}
	dir := filepath.Join(cfg.State, "profiles")
	store, err := profiles.Open(dir, filepath.Join(cfg.State, "profiles.good"))
	if err != nil {
		return nil, fmt.Errorf("profiles: %w", err)
	}
	s.profiles = store
	if s.profileDir, err = folder.OpenWhole(dir, "profiles"); err != nil {
		return nil, fmt.Errorf("profiles: %w", err)
	}
	s.tree = fs.New(rows(), at{s: s}, fs.Options[at]{Ident: s.ident, Failed: failed, Hold: hold})
	s.table, err = vmm.Open(s.options())
	if err != nil {
		s.profileDir.Close()
		return nil, err
	}
	return s, nil
}

// options say how VMs and the tree meet.
func (s *Server) options() vmm.Options {
	return vmm.Options{
		Dir:     s.cfg.State,
		Drivers: s.cfg.Drivers,
		Groups:  s.cfg.Groups,
		Profile: s.machines,
		Event:   s.lifecycle,
		Hooks: vmm.Hooks{
			Start:    func(ctx context.Context, m *vmm.VM) error { return s.vm(m).starting(ctx) },
			Conn:     func(m *vmm.VM, port uint32, c net.Conn) { s.vm(m).serve(port, c) },
			Stop:     func(m *vmm.VM) { s.vm(m).stopped() },
			PIDs:     func(m *vmm.VM) []int { return s.vm(m).helpers() },
			Busy:     func(m *vmm.VM) bool { return s.vm(m).busy() },
			Reverted: func(m *vmm.VM) { s.vm(m).forgetFolder("work"); s.gone("vm/" + m.Name() + "/work") },
			Remove:   s.forget,
		},
	}
}

// machines tells what a profile says of its machines. A profile that cannot
// be had says nothing but why.
func (s *Server) machines(name string) vmm.Profile {
	p, err := s.profiles.Get(name)
	if err != nil {
		return vmm.Profile{Err: err}
	}
	var env []string
	for k, v := range p.Env {
		env = append(env, k+"="+v)
	}
	return vmm.Profile{Env: env, Err: s.profiles.Check(name), Config: vmm.Config{
		Image: p.Image, Driver: p.Driver, Kernel: p.Kernel, RAM: p.RAM, CPUs: p.CPUs, PIDs: p.PIDs, Disk: p.Disk, Records: p.Records, Idle: p.Idle, TTL: p.TTL, Net: p.Net,
	}}
}

// Root returns the root of the tree.
func (s *Server) Root() fs.Node { return s.tree.Root() }

// Close ends the service: anonymous VMs go, named ones run on; then the
// endpoints, the ledgers and everything that was started are waited for.
func (s *Server) Close(ctx context.Context) error {
	err := s.table.Close(ctx)
	for _, v := range s.all() {
		v.close()
	}
	s.work.end()
	s.profileDir.Close()
	return err
}

// ident numbers what a walk found: VMs and execs by a number of their own,
// other generated entries by what they are.
func (s *Server) ident(a at) uint64 {
	switch {
	case a.snap != "" && a.name != "":
		return s.item(snapItem(a.vm, a.snap) + " " + a.name)
	case a.snap != "":
		return s.item(snapItem(a.vm, a.snap))
	case a.session != nil:
		return a.session.id
	case a.name != "" && a.vm != nil:
		return s.item(fmt.Sprintf("%d %s", a.vm.id, a.name))
	case a.name != "":
		return s.item(a.name)
	case a.exec != nil:
		return a.exec.id
	case a.vm != nil:
		return a.vm.id
	}
	return 0
}

func (s *Server) item(key string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.items[key] == 0 {
		s.items[key] = s.next()
	}
	return s.items[key]
}

// noItem has a generated entry that is made again under its name be another file.
func (s *Server) noItem(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.items, key)
}

// snapItem is the key of a snapshot; those of its differences begin with it.
func snapItem(v *vm, name string) string { return fmt.Sprintf("%d snap %s", v.id, name) }

// noSnap has a snapshot that is taken again under its name be another file,
// and the differences from it and to it.
func (s *Server) noSnap(v *vm, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := snapItem(v, name)
	maps.DeleteFunc(s.items, func(key string, _ uint64) bool {
		return key == own || strings.HasPrefix(key, own+" ") ||
			strings.HasPrefix(key, snapItem(v, "")) && strings.HasSuffix(key, " "+name)
	})
}

func (s *Server) next() uint64 { return s.ids.Add(1) }

// vms returns the VMs, sorted by name.
func (s *Server) vms() []*vm {
	var list []*vm
	for _, m := range s.table.List() {
		list = append(list, s.vm(m))
	}
	return list
}

// vm returns m as the tree has it.
func (s *Server) vm(m *vmm.VM) *vm {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.boxes[m]; v != nil {
		return v
	}
	v := newVM(s, m)
	s.boxes[m] = v
	return v
}

func (s *Server) all() []*vm {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*vm
	for _, v := range s.boxes {
		list = append(list, v)
	}
	return list
}

// forget drops a VM that was removed.
func (s *Server) forget(m *vmm.VM) {
	s.mu.Lock()
	v := s.boxes[m]
	delete(s.boxes, m)
	s.mu.Unlock()
	if v != nil {
		v.close()
	}
	s.gone("vm/" + m.Name())
}

func (s *Server) gone(path string) {
	if s.cfg.Gone != nil {
		s.cfg.Gone(path)
	}
}

// lifecycle is told what happens to VMs. That one failed is its last error,
// whether a client waits for it or not.
func (s *Server) lifecycle(e vmm.Event) {
	v := s.named(e.VM)
	if v != nil && e.Kind == vmm.EventFailed {
		if err := v.Err(); err != nil {
			v.err.set(err)
		}
	}
	if v != nil && (e.Kind == vmm.EventPosed || e.Kind == vmm.EventRefused) {
		v.alert(string(e.Kind), e.Text)
		return
	}
	s.tell(v, ledger.VMs, Event{Time: e.Time, VM: e.VM, Kind: string(e.Kind), Text: e.Text})
	if v != nil && (e.Kind == vmm.EventSnapshot || e.Kind == vmm.EventReverted || e.Kind == vmm.EventDropped) {
		v.snapshotEvent(e)
	}
}

// named returns the VM called name as the tree has it, or nil if it is gone.
// VMs that are adopted while the table opens are known by their hooks.
func (s *Server) named(name string) *vm {
	for _, v := range s.all() {
		if v.Name() == name {
			return v
		}
	}
	if s.table == nil {
		return nil
	}
	m, err := s.table.Lookup(name)
	if err != nil {
		return nil
	}
	return s.vm(m)
}

// later does f on a goroutine that Close waits for.
func (s *Server) later(f func(context.Context) error) {
	s.work.begin(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := f(ctx); err != nil && !errors.Is(err, fs.ErrNotExist) { // gone by itself
			s.log.Warn("not done", "err", err)
		}
	})
}

// checkName refuses names that no object of the tree can have.
func checkName(name string) error {
	switch {
	case len(name) > 64:
		return fmt.Errorf("%w: name of %d bytes: at most 64", fs.ErrTooLong, len(name))
	case name == "" || name[0] == '.' || strings.Trim(name, nameChars) != "":
		return fmt.Errorf("%w: name %q: use letters, digits, and . _ - not at the start", fs.ErrInvalid, name)
	}
	return nil
}

const nameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
