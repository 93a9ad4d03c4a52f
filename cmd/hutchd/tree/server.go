// Package tree serves sandboxes as a tree of files: tree.go declares every file,
// the others have what the files do. The manual is hutch.4.
package tree

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hutch/cmd/hutchd/sandbox"
	"hutch/cmd/hutchd/telemetry"
	"hutch/cmd/hutchd/workload"
	"hutch/fs"
	"hutch/fs/folder"
	"hutch/mcpd/query"
	"hutch/profiles/clients"
	"hutch/profiles/registry"
	"hutch/vmm"
)

// Config says what a Server stands on.
type Config struct {
	sandbox.Config // of the sandboxes; the tree adds Event
	Level          *slog.LevelVar
	// ServiceLog is where Log writes, and CrashLog the file that the Go
	// runtime writes to when it dies.
	ServiceLog *fs.Log
	CrashLog   string
	Mount      func() string                // where the tree is mounted, or none, for ctl to tell
	Listen     string                       // where 9P is served, for ctl to tell
	Hutch      string                       // path of the hutch command, for AI clients to start
	Shutdown   func()                       // ends the service; called by the ctl message
	Doctor     func(context.Context) string // looks the machine over; nil: nobody does
	// Gone is told of what went from the tree, or is another now, without the
	// client that has it cached: its path. Nil is fine.
	Gone func(path string)
}

// A Server is hutch's tree of the sandboxes.
type Server struct {
	*sandbox.Service
	Registry   *registry.Store
	cfg        Config
	tree       *fs.Tree[at]
	profileDir *folder.Folder
	workloads  *workload.Workloads
	clients    clients.Home
	queries    query.Engine
	err        fs.LastErr
	errors     atomic.Int64 // that clients got
	kept       atomic.Int64 // bytes of texts that open files keep
	began      time.Time

	mu    sync.Mutex      // guards items
	items map[item]uint64 // their numbers
}

// sweepLimit is how long a start waits for others that write files of clients.
const sweepLimit = time.Second

// New opens the state folder and returns the tree of it.
func New(cfg Config) (*Server, error) {
	s := &Server{began: time.Now(), items: map[item]uint64{}}
	cfg.Event, cfg.AskEnded = s.changed, s.askEnded
	var admit func(*os.File) error
	cfg.Programs = func(of *sandbox.Service) sandbox.Starter {
		admit = of.Secrets.Admit
		s.workloads = workload.New(of, cfg.State, s.Registry)
		return s.workloads.Start
	}
	if cfg.Telemetry == nil {
		cfg.Telemetry = telemetry.New(cfg.Log)
	}
	s.cfg = cfg
	s.clients = clients.Home{Dir: cfg.Home, Backups: filepath.Join(cfg.State, "clients"), Program: cfg.Hutch, Address: reachable(cfg.Listen)}
	brief, cancel := context.WithTimeout(context.Background(), sweepLimit)
	defer cancel()
	s.clients.Sweep(brief)
	var err error
	if s.Registry, err = registry.Open(registry.Config{Dir: filepath.Join(cfg.State, "registry"), Admit: func(f *os.File) error { return admit(f) }}); err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	if s.Service, err = sandbox.Open(cfg.Config); err != nil {
		s.Registry.Close()
		return nil, err
	}
	if s.profileDir, err = folder.OpenWhole(s.Profiles.Dir(), "profiles"); err != nil {
		s.Service.Close(context.Background())
		s.Registry.Close()
		return nil, fmt.Errorf("profiles: %w", err)
	}
	s.profileDir.Missing = func(path string) error {
		err := s.Profiles.NotHere(path)
		if err != nil {
			failed(at{s: s}, err)
		}
		return err
	}
	if err := s.workloads.Open(); err != nil {
		s.Close(context.Background())
		return nil, err
	}
	s.cfg.Telemetry.Add(s.gauges)
	s.tree = fs.New(rows(), at{s: s}, fs.Options[at]{Ident: s.ident, Failed: failed, Hold: hold})
	return s, nil
}

// Root returns the root of the tree.
func (s *Server) Root() fs.Node { return s.tree.Root() }

// Close closes the sandboxes' service, and then what is left of the tree.
func (s *Server) Close(ctx context.Context) error {
	err := errors.Join(s.workloads.Close(ctx), s.Service.Close(ctx))
	s.Registry.Close()
	s.profileDir.Close()
	return err
}

// An item is a generated entry that is no object: an image, a client, a tool, a
// snapshot, or the difference from one to another.
type item struct {
	of         uint64 // the gateway's; 0: none
	snap, name string
	client     string
}

// ident numbers what a walk found: VMs and execs by a number of their own,
// other generated entries by what they are.
func (s *Server) ident(a at) uint64 {
	i := item{snap: a.snap, name: a.name, client: a.client}
	if a.gw != nil {
		i.of = a.gw.ID
	}
	switch {
	case a.session != nil:
		return a.session.ID
	case a.tcp != nil:
		return a.tcp.ID
	case a.ask != nil:
		return a.ask.Ident
	case a.exec != nil:
		return a.exec.ID
	case i.snap == "" && i.name == "" && i.client == "":
		return i.of
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.items[i] == 0 {
		s.items[i] = s.NextID()
	}
	return s.items[i]
}

// forget drops the numbers of generated entries that are gone: what is made later
// under the same name is another file, with a number of its own.
func (s *Server) forget(gone func(item) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.items, func(i item, _ uint64) bool { return gone(i) })
}

// changed is told of events. It forgets, and has clients forget, the files that
// an event removed or replaced.
func (s *Server) changed(v *sandbox.Sandbox, e vmm.Event) {
	switch e.Kind {
	case vmm.EventRemoved:
		s.workloads.Forget(e.VM)
		s.gone("vm/" + e.VM)
	case vmm.EventReverted:
		v.ForgetFolder("work")
		s.gone("vm/" + e.VM + "/work")
	case vmm.EventUnpacked:
		for _, name := range []string{"work", "env"} {
			v.ForgetFolder(name)
			s.gone("vm/" + e.VM + "/" + name)
		}
	case vmm.EventDropped:
		s.forgetSnap(v, e.Text)
	}
}

func (s *Server) gone(path string) {
	if s.cfg.Gone != nil {
		s.cfg.Gone(path)
	}
}

// Locked is told of a file, by its path in the tree and its number on the
// host, that a client of the host writes and has locked. A guest that writes
// it, too, knows nothing of the lock.
func (s *Server) Locked(name string, dev, ino uint64) {
	part := strings.SplitN(name, "/", 4)
	if len(part) < 4 || part[0] != "vm" || part[2] != "work" {
		return
	}
	if v, err := s.Lookup(part[1]); err == nil {
		v.Locked(part[3], dev, ino)
	}
}

// failed is told every error that a client gets from a row.
func failed(a at, err error) {
	a.s.err.Set(err)
	a.s.errors.Add(1)
	if a.gw != nil {
		a.gw.LastErr.Set(err)
	}
}

func rootErr(c call) (string, error) { return c.At.s.err.Text(), nil }

func vmErr(c call) (string, error) { return c.At.vm.ErrText(), nil }
