// Package mcpd serves MCP to the programs inside one VM, or to the clients of a
// group of servers. It stands between them and every MCP server: it records
// each request in the ledger, decides it, and routes it to the workspace or
// through the aggregator child to the server it names (pipeline.go).
//
//	guest program ─stdio→ relay ─frames→ session ─ledger, policy→ workspace | aggregator → servers
//
// What passes is forwarded as it came. Only the envelope is read, and only
// the names are replaced that tell servers apart: tools and prompts are
// server__name, resources capsem://server/uri, unless SetArrange gives them others.
//
// A connection from the relay is a session. Each request of it runs on a
// goroutine of its own, so a slow tool holds up nothing else. Locks are held
// for the time of a map access, never over I/O or a call of other packages.
package mcpd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hutch/aggd/child"
	"hutch/aggd/programs"
	"hutch/aggd/storage"
	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/mcpd/attest"
	"hutch/mcpd/dispatch"
	"hutch/mcpd/frame"
	"hutch/mcpd/ledger"
	"hutch/mcpd/pins"
	"hutch/mcpd/policy"
	"hutch/mcpd/redact"
	"hutch/mcpd/workspace"
)

// Config says what an Endpoint serves. It needs no VM: that of a group of
// servers has no workspace and no snapshots, and the tools for them do not exist.
type Config struct {
	VM      func() string // its name, which can change; nil: there is none
	Profile func() string // that of the VM; nil: there is none
	Work    string        // the host's folder of the workspace; empty: there is none
	// Snapshots are those of the VM; the zero value has none.
	Snapshots workspace.Snapshots

	// Ledger returns the VM's open ledger.
	Ledger func() (*ledger.DB, error)
	// Seal attests the guest's keys and judges its envelopes; nil: there are none.
	Seal *attest.Gate
	// Pins remembers what was approved of the servers' tools; nil: nothing is held back.
	Pins *pins.Store
	// Run runs a command of cmd.run in the guest; nil: that tool does not exist.
	Run dispatch.Runner
	// Before is told of a call that may change the workspace, before it does: its
	// number in the ledger, its tool, and whether it is to run a command. An error
	// fails the call. Nil: nobody wants to know.
	Before func(ctx context.Context, id uint64, tool string, command bool) error
	// Guard is asked before each request of a server; nil: nothing is in the way.
	Guard Guard
	// AggdPath is the aggregator's program. The endpoint works without it.
	AggdPath string
	// Start starts programs of servers that are to run in a sandbox. Nil: nothing does.
	Start programs.Starter

	// Resolve returns the secrets that servers' definitions refer to; nil: there
	// are none.
	Resolve wire.Resolver

	// Hide takes secrets out of what a server says to the client. Where it is not ok,
	// nothing of that is passed on. Nil: the client gets all.
	Hide func(value []byte) (left []byte, ok bool)

	Log    *slog.Logger
	AggLog io.Writer
	// Event is told of security events.
	Event func(Alert)
	// Trouble is told when the aggregator or a server dies. It must not block.
	Trouble func(kind, text string)
	// Stopped says whether somebody stopped a server: its end is no death. It must not
	// block. Nil: nobody does.
	Stopped func(server string) bool
	// Changed is told when a kept server or the aggregator may be in another state
	// than before. It must not block.
	Changed func()
	// Begun is told of a call that is under way for longer: its number, method and
	// tool, and its trace. Nil is fine.
	Begun func(text, trace string)
	// Ended is told of each call that has its answer. It must not block. Nil is fine.
	Ended func(Ended)
	// Ask asks a person. It waits until there is an answer or the context ends.
	// Nil: nobody can be asked, and what would be is blocked.
	Ask func(context.Context, Question) policy.Decision

	// Limits; each has a default.
	CallTimeout time.Duration // of tools/call, where the server has none of its own
	Settle      time.Duration // how long initialize waits for servers that are starting
	AskNews     time.Duration // how often a guest is told that its call waits for a person
}

const (
	callTimeout = 300 * time.Second
	timeout     = 60 * time.Second // of other requests
	settleTime  = 2 * time.Second
	askNews     = 10 * time.Second
	maxPending  = 64 << 20
)

// An Endpoint serves the MCP sessions of one VM, or of a group of servers.
type Endpoint struct {
	cfg      Config
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	log      *redact.Lines // of the aggregator
	death    atomic.Pointer[death]
	catalogs catalogs
	work     *workspace.Workspace
	files    atomic.Pointer[string] // of SetFiles; nil: nobody has said it
	commands commands
	local    *session       // requests that come from the tree
	running  sync.WaitGroup // connections, and what outlives its call

	// rules is what Reload replaces.
	rules atomic.Pointer[rules]

	limits     atomic.Pointer[wire.Limits] // of messages
	arrange    atomic.Pointer[Arrange]     // nil: names tell servers apart
	composites atomic.Pointer[composites]  // nil: there are none
	whole      atomic.Bool                 // lists have all servers, or are refused

	refreshing atomic.Bool  // a refresh is about to begin
	fetching   sync.Mutex   // held by the one that has begun
	telling    atomic.Int32 // notifications on their way to servers

	// aggregator is the child while the machine runs.
	aggregator atomic.Pointer[child.Child]

	mu       sync.Mutex // guards what follows
	sessions map[*session]struct{}
	listens  map[*listen]struct{}
	declared map[string]wire.ClientParams // sets of client capabilities, by key
	closed   bool

	subs  subscriptions
	tasks tasks

	number   atomic.Uint64 // of the last session
	count    counters
	pending  *frame.Budget // of all sessions
	inFlight atomic.Int64  // requests of all sessions

	makings atomic.Int32 // runs of composite tools

	exchangeBytes atomic.Int64 // of what waits for clients, of all sessions

	trouble atomic.Pointer[string] // why there is no aggregator; nil if there is
}

// rules are the servers and the policy of one moment.
type rules struct {
	servers map[string]wire.Server
	list    []wire.Server
	policy  *policy.Policy
	decide  decider // nil: there is no policy yet
	judges  bool    // it may have something against an answer
}

func newRules(servers []wire.Server, p *policy.Policy) *rules {
	r := &rules{servers: make(map[string]wire.Server), list: servers, policy: p}
	if p != nil {
		r.judges = p.About(policy.OnResponse)
		r.decide = func(_ context.Context, e *policy.Event) policy.Decision { return p.Decide(e) }
	}
	for _, s := range servers {
		r.servers[s.Name] = s
	}
	return r
}

// askTime returns how long a question waits for an answer.
func (r *rules) askTime() time.Duration {
	if r.policy == nil {
		return policy.AskTime
	}
	return r.policy.AskTime()
}

// New returns an Endpoint. It serves at once, but until Reload has given it a
// policy it refuses all that needs one. Servers are reached between Start
// and Stop.
func New(cfg Config) *Endpoint {
	cfg = cfg.withDefaults()
	e := &Endpoint{
		cfg:      cfg,
		pending:  frame.NewBudget(maxPending),
		sessions: make(map[*session]struct{}),
		listens:  make(map[*listen]struct{}),
		declared: make(map[string]wire.ClientParams),
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.log = &redact.Lines{To: cfg.AggLog, Redactor: e.redactor}
	e.rules.Store(newRules(nil, nil))
	e.SetLimits(e.ctx, wire.Limits{})
	e.catalogs = catalogs{e: e, turns: make(chan struct{}, maxFetching), byKey: make(map[string]catalog)}
	e.tasks.byID = make(map[string]*task)
	e.subs = subscriptions{e: e, topics: make(map[topic]map[subscriber]string)}
	e.work = workspace.New(cfg.Work, cfg.Snapshots)
	e.local = newSession(e, nil)
	return e
}

func (cfg Config) withDefaults() Config {
	if cfg.VM == nil {
		cfg.VM = func() string { return "" }
	}
	if cfg.Profile == nil {
		cfg.Profile = func() string { return "" }
	}
	if cfg.Ledger == nil {
		cfg.Ledger = func() (*ledger.DB, error) { return nil, fmt.Errorf("%w: there is none", fs.ErrUnsupported) }
	}
	if cfg.Event == nil {
		cfg.Event = func(Alert) {}
	}
	if cfg.Changed == nil {
		cfg.Changed = func() {}
	}
	if cfg.Trouble == nil {
		cfg.Trouble = func(string, string) {}
	}
	if cfg.Stopped == nil {
		cfg.Stopped = func(string) bool { return false }
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.AggLog = cmp.Or(cfg.AggLog, io.Discard)
	cfg.CallTimeout = cmp.Or(cfg.CallTimeout, callTimeout)
	cfg.Settle = cmp.Or(cfg.Settle, settleTime)
	cfg.AskNews = cmp.Or(cfg.AskNews, askNews)
	return cfg
}

// Reload replaces servers and policy. Requests that are already decided go on;
// servers that did not change stay connected.
func (e *Endpoint) Reload(ctx context.Context, servers []wire.Server, p *policy.Policy) error {
	if p != nil {
		p = p.Use(e.rules.Load().policy)
	}
	now := newRules(slices.Clone(servers), p)
	e.mu.Lock() // as start, which would else begin with the old ones
	e.rules.Store(now)
	c := e.aggregator.Load()
	e.mu.Unlock()
	e.tasks.keep(now.servers)
	var err error
	if c != nil {
		err = c.Refresh(ctx, servers)
	}
	e.changed("")
	return err
}

// SetStorage has the tools fs.* work on s, or, if that is nil, on the workspace's
// folder.
func (e *Endpoint) SetStorage(s storage.Storage) { e.work.SetStorage(s) }

// SetPending says how many bytes the sessions may have pending together; 0 is
// the default.
func (e *Endpoint) SetPending(n int64) {
	if n <= 0 {
		n = maxPending
	}
	e.pending.Set(int(n))
}

// SetLimits says how long and how deep messages may be.
func (e *Endpoint) SetLimits(ctx context.Context, l wire.Limits) error {
	l = l.WithDefaults()
	e.mu.Lock() // as in Reload
	e.limits.Store(&l)
	c := e.aggregator.Load()
	e.mu.Unlock()
	if c != nil {
		return c.SetLimits(ctx, l)
	}
	return nil
}

// Pending returns how many bytes the sessions have pending.
func (e *Endpoint) Pending() int { return e.pending.Used() }

// Close ends every session and the aggregator, and waits for all of it.
func (e *Endpoint) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.cancel()
	err := e.Stop()
	e.running.Wait()
	return err
}

// Sessions returns how many connections are being served.
func (e *Endpoint) Sessions() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.sessions)
}

// background runs f on a goroutine that Close waits for.
func (e *Endpoint) background(f func(ctx context.Context)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.running.Go(func() { f(e.ctx) })
}
