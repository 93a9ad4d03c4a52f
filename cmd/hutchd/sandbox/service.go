// Package sandbox keeps the sandboxes of hutchd: VMs with all that belongs to
// them. A Sandbox is a VM with its MCP endpoint, its ledger, its proxy, its
// environment, its secrets, and the commands and MCP sessions that clients
// made; a Service holds them all. What starts and ends when, Sandbox.Begin,
// End and Close say.
//
// It knows nothing of files: the tree of hutchd (package tree) shows what is
// here, and reaches it by methods.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"hutch/aggd/programs"
	"hutch/aggd/wire"
	"hutch/cmd/hutchd/gateway"
	"hutch/cmd/hutchd/telemetry"
	"hutch/fs"
	"hutch/mcpd/asks"
	"hutch/mcpd/attest"
	"hutch/profiles"
	"hutch/profiles/secrets"
	"hutch/vmm"
	"hutch/vmm/cgroup"
	"hutch/vmm/own"
)

// Config says what a Service stands on.
type Config struct {
	State   string       // folder of the service's state
	Corp    string       // folder of what corp says of profiles; "": there is none
	Home    string       // of the user, with the files of AI clients; "": there is none
	Own     []own.Item   // what is the service's beside State, and no guest's to see
	Drivers []vmm.Driver // what can run VMs, the default first
	Groups  *cgroup.Root // makes control groups for VMs; nil: there are none
	// RequireLimits refuses to start a VM that cannot be held to the limits of its config.
	RequireLimits bool
	Aggd          string // path of the aggregator program
	Locald        string // path of the proxy's program
	Log           *slog.Logger
	// Telemetry is told what was done.
	Telemetry *telemetry.Telemetry
	// Programs makes what starts the programs of MCP servers that are to run in
	// sandboxes, before there is one. Nil: there are none.
	Programs func(*Service) Starter
	Conns    int // most connections of guests; 0: half of what descriptors there are
	// LedgerIdle is after what time a ledger is closed that nobody needs; 0: 5 minutes.
	LedgerIdle time.Duration
	// Event is told of what happens to VMs, after all that belongs to them was.
	// It does not wait.
	Event func(*Sandbox, vmm.Event)
	// AskEnded is told the number of a question that waits no more. Nil is fine.
	AskEnded func(id uint64)
}

// A Starter starts a program of a gateway's server.
type Starter = func(ctx context.Context, g *gateway.Gateway, s programs.Start) (programs.Task, error)

// A Service holds the sandboxes. It is a vmm.Table whose VMs are sandboxes.
type Service struct {
	*vmm.Table
	gateway.Service
	Count Counters

	// Denied is told of each request that a sandbox's proxy has refused. It is set
	// before there is a sandbox; nil is fine.
	Denied func(*Sandbox, wire.NetEvent)

	cfg     Config
	limiter connLimiter
	tasks   gateway.Tasks // that Close waits for
	signing *attest.Key   // of the tokens of all sandboxes
}

// Counters count what the sandboxes did since the service was opened.
type Counters struct {
	Execs   atomic.Int64 // commands started
	Refused atomic.Int64 // connections of guests for which there was no room
}

// Open opens the state folder, which nobody else uses. Sandboxes whose machines still
// run are served from then on.
func Open(cfg Config) (*Service, error) {
	fs.Sweep(cfg.State)
	mine := own.New(append([]own.Item{{What: "the state of hutchd", Path: cfg.State}}, cfg.Own...))
	s := &Service{
		cfg: cfg,
		Service: gateway.Service{
			Events: fs.NewLog(gateway.MaxEvents), Telemetry: cfg.Telemetry, Log: cfg.Log,
			Aggd: cfg.Aggd, Locald: cfg.Locald, LedgerIdle: cfg.LedgerIdle,
			Secrets: secrets.New(filepath.Join(cfg.State, "secrets")),
		},
		signing: attest.NewKey(filepath.Join(cfg.State, "attest.key")),
	}
	s.Secrets.Admit = mine.RefuseFile
	if s.limiter.most = cfg.Conns; s.limiter.most == 0 {
		s.limiter.most = mostConns()
	}
	if cfg.Programs != nil {
		s.Start = cfg.Programs(s)
	}
	var err error
	s.Profiles, err = profiles.Open(profiles.Folders{
		Profiles: filepath.Join(cfg.State, "profiles"), Good: filepath.Join(cfg.State, "profiles.good"), Corp: cfg.Corp, Home: cfg.Home, Admit: s.Secrets.Check,
	})
	if err != nil {
		return nil, fmt.Errorf("profiles: %w", err)
	}
	if s.Asks, err = asks.Open(filepath.Join(cfg.State, "asks"), cfg.AskEnded); err != nil {
		return nil, fmt.Errorf("asks: %w", err)
	}
	s.Table, err = vmm.Open(vmm.Options{
		Dir: cfg.State, Own: mine, Drivers: cfg.Drivers, Groups: cfg.Groups, RequireLimits: cfg.RequireLimits, Profile: s.machines,
		Sidecar: func(m *vmm.VM) vmm.Sidecar { return newSandbox(s, m) },
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// machines tells what a profile says of its machines. A profile that cannot
// be had says nothing but why.
func (s *Service) machines(name string) vmm.Profile {
	p, err := s.Profiles.Get(name)
	if err != nil {
		return vmm.Profile{Err: err}
	}
	var env []string
	for k, v := range p.Env {
		env = append(env, k+"="+v)
	}
	return vmm.Profile{Env: env, Err: s.Profiles.Check(name), Config: p.Config, Admit: p.Admit, AdmitEnv: p.AdmitEnv}
}

// Close ends the service: anonymous VMs go, named ones run on without this
// process; every sandbox is closed, and then what ran for the service is
// waited for.
func (s *Service) Close(ctx context.Context) error {
	err := s.Table.Close(ctx)
	s.tasks.End()
	s.Secrets.Close()
	return err
}

// Lookup returns the sandbox called name.
func (s *Service) Lookup(name string) (*Sandbox, error) { return of(s.Table.Lookup(name)) }

// List returns the sandboxes, sorted by name.
func (s *Service) List() []*Sandbox {
	var list []*Sandbox
	for _, m := range s.Table.List() {
		list = append(list, m.Sidecar().(*Sandbox))
	}
	return list
}

// Make makes a sandbox called name, which lives until it is removed.
func (s *Service) Make(ctx context.Context, name string) (*Sandbox, error) {
	return of(s.Table.Make(ctx, name))
}

// MakeWith is Make of a sandbox whose VM has a config from its beginning.
func (s *Service) MakeWith(ctx context.Context, name, config string) (*Sandbox, error) {
	return of(s.Table.MakeWith(ctx, name, config))
}

// MakeAnonymous makes one with a number for a name, which goes when it stops
// or when the last of its holders has let go of it.
func (s *Service) MakeAnonymous(ctx context.Context) (*Sandbox, error) {
	return of(s.Table.MakeAnonymous(ctx))
}

// of returns the sandbox of m.
func of(m *vmm.VM, err error) (*Sandbox, error) {
	if err != nil {
		return nil, err
	}
	return m.Sidecar().(*Sandbox), nil
}

// Later does f on a goroutine that Close waits for.
func (s *Service) Later(f func(context.Context) error) {
	s.tasks.Begin(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := f(ctx); err != nil && !errors.Is(err, fs.ErrNotExist) { // gone by itself
			s.Log.Warn("not done", "err", err)
		}
	})
}
