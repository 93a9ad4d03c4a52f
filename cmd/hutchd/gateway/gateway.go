// Package gateway serves MCP to one VM, one server or one group of servers. A
// Gateway is an endpoint with all that belongs to it: the profile that it is
// configured by, its ledger, the events and the questions to a person that come
// of it, and the MCP sessions that clients of the tree have; a Service is what
// all gateways share.
package gateway

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"hutch/aggd/programs"
	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/mcpd"
	"hutch/mcpd/attest"
	"hutch/mcpd/ledger"
	"hutch/mcpd/pins"
	"hutch/mcpd/redact"
	"hutch/profiles"
)

// Config says whose a Gateway is. What has a function is asked whenever it is
// needed: it may be another then.
type Config struct {
	Kind string        // what it is the gateway of, as errors name it: vm, server, group
	Name func() string // of that
	Dir  string        // its folder, with the ledger, the logs and what was approved of servers' tools

	Profile func() string // the name of the profile that configures the gateway
	Running func() bool   // the endpoint's aggregator runs, or is about to
	Idle    func() bool   // the ledger may be closed: nothing is recorded by itself

	LedgerLimit func() int64      // in bytes
	State       func() ledger.Row // what an event's row says of whom it is about

	// Servers makes a profile's servers those of the endpoint; nil: as they are,
	// with the built-in tools.
	Servers func(*profiles.Profile) []wire.Server
	// Configured is told of the profile before the endpoint is. Nil is fine.
	Configured func(*profiles.Profile)
	// Hold keeps whose the gateway is until done is called. Nil: it stays anyway.
	Hold func() (done func())

	// Endpoint has what is special to the endpoint; New sets the rest.
	Endpoint mcpd.Config
	Attest   *attest.Gate // of the keys of its programs; nil: there are none
}

// A Gateway is an MCP endpoint with what belongs to it. Its methods may be called
// concurrently.
type Gateway struct {
	ID      uint64         // no other object's
	MCP     *mcpd.Endpoint // which begins and ends with the machine
	Attest  *attest.Gate   // of the keys of its programs
	LastErr fs.LastErr     // the last error about it

	cfg     Config
	service *Service
	ctx     context.Context // ends with Quit
	cancel  context.CancelFunc
	tasks   Tasks // on its behalf
	aggLog  *logFile

	profile     atomic.Pointer[profiles.Profile] // that the endpoint was configured by
	safe        bool                             // clients are given safe names; guarded by configuring
	configuring chan struct{}                    // holds a token while it is: the last has the newest profile

	pins *pins.Store // what was approved of the tools of its servers

	repeats repeatLimiter // of the events that a guest can bring about

	begun atomic.Int64 // bytes of lines of sessions that have begun and not ended

	sessionsMu  sync.Mutex // guards sessions
	sessions    map[string]*Session
	lastSession atomic.Uint64 // the number of the last anonymous one

	linksMu sync.Mutex // guards links
	links   map[*Link]struct{}

	red         redact.Redactor // of what is never to be written to the ledger
	credentials redact.Redactor // of what the servers themselves are given

	ledgerMu     sync.Mutex  // guards what follows
	ledger       *ledger.DB  // nil until it is needed
	ledgerHeld   int         // HoldLedgers that are not released
	ledgerUsed   time.Time   // when it was asked for or released last
	ledgerRests  *time.Timer // closes it where nobody needs it
	ledgerClosed bool        // for good
}

// New returns a Gateway of which nothing has begun.
func New(s *Service, cfg Config) *Gateway {
	g := &Gateway{
		ID: s.NextID(), Attest: cfg.Attest, cfg: cfg, service: s, aggLog: newAggLog(cfg.Dir),
		sessions: map[string]*Session{}, configuring: make(chan struct{}, 1),
	}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.profile.Store(new(profiles.Profile))
	g.pins = pins.New(filepath.Join(cfg.Dir, pinsFolder))
	g.pins.Hide = g.Known
	g.repeats.tell, g.repeats.begin = g.repeated, g.tasks.Begin
	g.credentials.ValuesOnly = true
	e := cfg.Endpoint
	e.VM = g.Whose
	e.Profile = func() string { return g.profile.Load().Name }
	e.Ledger = g.Ledger
	e.Seal = cfg.Attest
	e.Pins = g.pins
	e.Hide = g.hideEchoes
	e.AggdPath = s.Aggd
	e.Log = s.Log.With(cfg.Kind, cfg.Name())
	e.AggLog = g.AggLog()
	e.Event = g.Alerted
	e.Ended = func(c mcpd.Ended) { s.Telemetry.Call(g.Whose(), c) }
	e.Begun = func(text, trace string) { g.report(subject{table: ledger.VMs, kind: eventCall}, text, trace, 1) }
	e.Trouble = g.Trouble
	e.Ask = g.ask
	if e.Resolve == nil {
		e.Resolve = g.Resolve
	}
	if s.Start != nil {
		e.Start = func(ctx context.Context, p programs.Start) (programs.Task, error) { return s.Start(ctx, g, p) }
	}
	g.MCP = mcpd.New(e)
	s.enter(g)
	return g
}

// Renew forgets what was told, and gives the ledger its limit: the machine begins anew.
func (g *Gateway) Renew() {
	g.repeats.flush()
	g.limitLedger()
}

// Quit ends what is done on behalf of the gateway, and waits for that. Nothing
// begins after it.
func (g *Gateway) Quit() {
	g.cancel()
	g.tasks.End()
}

// Close ends the gateway, and waits for it: what Quit ends, the endpoint, what is
// left to be told, and last the ledger, which takes records until then.
func (g *Gateway) Close() {
	g.Quit()
	g.service.leave(g)
	g.MCP.Close()
	if g.Attest != nil {
		g.Attest.Close()
	}
	g.repeats.close()
	g.closeLedger()
}

// Hide has values never be written to the ledger.
func (g *Gateway) Hide(values ...string) { g.red.Add(values...) }

// HideToken is Hide for a token that another one follows, see redact.AddPassing.
func (g *Gateway) HideToken(token string) {
	g.red.AddPassing(token)
	g.credentials.AddPassing(token)
}

// Hides returns a text without what is never to be written.
func (g *Gateway) Hides(text string) string { return g.red.Redact(text) }

// Preview is Hides for the beginning of a text, max bytes.
func (g *Gateway) Preview(text string, max int) string { return g.red.PreviewString(text, max) }

// Known returns a text without the secrets that are known, and with what only looks like
// one: for who has to see what a server says.
func (g *Gateway) Known(text string) string { return g.red.Known(text) }

// Kind returns what it is the gateway of.
func (g *Gateway) Kind() string { return g.cfg.Kind }

// Folder returns its folder, with its records and logs.
func (g *Gateway) Folder() string { return g.cfg.Dir }

// Of returns the name of whose the gateway is.
func (g *Gateway) Of() string { return g.cfg.Name() }

// ProfileName returns the name of the profile that is to configure it.
func (g *Gateway) ProfileName() string { return cmp.Or(g.cfg.Profile(), profiles.Default) }

// Whose says whose the gateway is among those of all kinds: a VM's name, servers/NAME
// or groups/NAME.
func (g *Gateway) Whose() string {
	if g.cfg.Kind == VM {
		return g.cfg.Name()
	}
	return g.cfg.Kind + "s/" + g.cfg.Name()
}

// String is what errors call whose the gateway is.
func (g *Gateway) String() string { return g.cfg.Kind + " " + g.cfg.Name() }

// gone is the error of what comes after Quit.
func (g *Gateway) gone() error { return fmt.Errorf("%w: %s", fs.ErrNotExist, g) }

// Context ends with Quit.
func (g *Gateway) Context() context.Context { return g.ctx }

// Do does f on a goroutine that Quit waits for, or not at all after that.
func (g *Gateway) Do(f func()) bool { return g.tasks.Begin(f) }

// Later is Do of what may fail, and ends with Quit.
func (g *Gateway) Later(f func(context.Context) error) bool {
	return g.Do(func() {
		if err := f(g.ctx); err != nil {
			g.service.Log.Debug("not done", g.cfg.Kind, g.cfg.Name(), "err", err)
		}
	})
}
