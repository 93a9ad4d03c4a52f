// Package tree serves sandboxes as a tree of files: tree.go declares every file,
// the others have what the files do. The manual is hutch.4.
package tree

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hutch/cmd/hutchd/sandbox"
	"hutch/fs"
	"hutch/fs/folder"
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
	Mount      func() string // where the tree is mounted, or none, for ctl to tell
	Listen     string        // where 9P is served, for ctl to tell
	Shutdown   func()        // ends the service; called by the ctl message
	// Gone is told of what went from the tree, or is another now, without the
	// client that has it cached: its path. Nil is fine.
	Gone func(path string)
	// Gauges adds lines to metrics: the frontends' counters.
	Gauges func() []Metric
}

// A Server is hutch's tree of the sandboxes.
type Server struct {
	*sandbox.Service
	cfg        Config
	tree       *fs.Tree[at]
	profileDir *folder.Folder
	err        fs.LastErr
	errors     atomic.Int64 // that clients got
	began      time.Time

	mu    sync.Mutex        // guards items
	items map[string]uint64 // numbers of generated entries that are no objects
}

// New opens the state folder and returns the tree of it.
func New(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg, began: time.Now(), items: map[string]uint64{}}
	cfg.Event = s.changed
	var err error
	if s.Service, err = sandbox.Open(cfg.Config); err != nil {
		return nil, err
	}
	if s.profileDir, err = folder.OpenWhole(s.Profiles.Dir(), "profiles"); err != nil {
		s.Service.Close(context.Background())
		return nil, fmt.Errorf("profiles: %w", err)
	}
	s.tree = fs.New(rows(), at{s: s}, fs.Options[at]{Ident: s.ident, Failed: failed, Hold: hold})
	return s, nil
}

// Root returns the root of the tree.
func (s *Server) Root() fs.Node { return s.tree.Root() }

// Close closes the sandboxes' service, and then what is left of the tree.
func (s *Server) Close(ctx context.Context) error {
	err := s.Service.Close(ctx)
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
		return a.session.ID
	case a.name != "" && a.vm != nil:
		return s.item(fmt.Sprintf("%d %s", a.vm.ID, a.name))
	case a.name != "":
		return s.item(a.name)
	case a.exec != nil:
		return a.exec.ID
	case a.vm != nil:
		return a.vm.ID
	}
	return 0
}

func (s *Server) item(key string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.items[key] == 0 {
		s.items[key] = s.NextID()
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
func snapItem(v *sandbox.Sandbox, name string) string { return fmt.Sprintf("%d snap %s", v.ID, name) }

// noSnap has a snapshot that is taken again under its name be another file,
// and the differences from it and to it.
func (s *Server) noSnap(v *sandbox.Sandbox, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := snapItem(v, name)
	maps.DeleteFunc(s.items, func(key string, _ uint64) bool {
		return key == own || strings.HasPrefix(key, own+" ") ||
			strings.HasPrefix(key, snapItem(v, "")) && strings.HasSuffix(key, " "+name)
	})
}

// changed has what an event makes another file, or none, be that to clients.
func (s *Server) changed(v *sandbox.Sandbox, e vmm.Event) {
	switch e.Kind {
	case vmm.EventRemoved:
		s.gone("vm/" + e.VM)
	case vmm.EventReverted:
		v.ForgetFolder("work")
		s.gone("vm/" + e.VM + "/work")
	case vmm.EventDropped:
		s.forgetSnap(v, e.Text)
	}
}

func (s *Server) gone(path string) {
	if s.cfg.Gone != nil {
		s.cfg.Gone(path)
	}
}
