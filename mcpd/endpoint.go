// Package mcpd serves MCP to the programs inside one VM. It stands between
// them and every MCP server: it decides each request, records it in the
// ledger before an answer leaves, and routes it to the workspace or through
// the aggregator child to the server it names.
//
//	guest program ─stdio→ relay ─frames→ session ─policy, ledger→ workspace | aggregator → servers
//
// What passes is forwarded as it came. Only the envelope is read, and only
// the names are replaced that tell servers apart: tools and prompts are
// server__name, resources capsem://server/uri.
//
// A connection from the relay is a session. Each request of it runs on a
// goroutine of its own, so a slow tool holds up nothing else. Locks are held
// for the time of a map access, never over I/O or a call of other packages.
package mcpd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hutch/aggd/child"
	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/mcpd/frame"
	"hutch/mcpd/ledger"
	"hutch/mcpd/policy"
	"hutch/mcpd/workspace"
)

// Config says what an Endpoint serves.
type Config struct {
	VM      func() string // its name, which can change
	Version string        // of hutch, for serverInfo
	Work    string        // the host's folder of the workspace
	// Snapshots are those of the VM.
	Snapshots workspace.Snapshots

	// Ledger returns the VM's open ledger.
	Ledger func() (*ledger.DB, error)
	// AggdPath is the aggregator's program. The endpoint works without it.
	AggdPath string
	AggdArgs []string

	Log    *slog.Logger
	AggLog io.Writer
	// Event is told of security events.
	Event func(kind, text string)
	// Trouble is told when the aggregator or a server dies. It must not block.
	Trouble func(kind, text string)

	// Limits; each has a default.
	CallTimeout time.Duration // of tools/call, where the server has none of its own
	Timeout     time.Duration // of other requests
	Settle      time.Duration // how long initialize waits for servers that are starting
}

const (
	callTimeout = 300 * time.Second
	timeout     = 60 * time.Second
	settleTime  = 2 * time.Second
	maxPending  = 64 << 20
)

// An Endpoint serves the MCP sessions of one VM.
type Endpoint struct {
	cfg      Config
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	log      *lineRedactor // of the aggregator
	catalogs catalogs
	work     *workspace.Workspace
	local    *session       // requests that come from the tree
	tasks    sync.WaitGroup // connections, and what outlives its call

	// rules is what Reload replaces.
	rules atomic.Pointer[rules]

	refreshing atomic.Bool  // a refresh is about to begin
	telling    atomic.Int32 // notifications on their way to servers

	// aggregator is the child while the machine runs.
	aggregator atomic.Pointer[child.Child]

	// mu guards what follows.
	mu       sync.Mutex
	sessions map[*session]struct{}
	declared map[string]json.RawMessage // sets of client capabilities, by key
	closed   bool

	subs subscriptions

	count    counters
	pending  *frame.Budget // of all sessions
	inFlight atomic.Int64  // requests of all sessions

	trouble atomic.Pointer[string] // why there is no aggregator; nil if there is
}

// rules are the servers and the policy of one moment.
type rules struct {
	servers map[string]wire.Server
	list    []wire.Server
	policy  *policy.Policy
}

func newRules(servers []wire.Server, p *policy.Policy) *rules {
	r := &rules{servers: make(map[string]wire.Server), list: servers, policy: p}
	r.servers[wire.Local] = wire.Server{Name: wire.Local, Enabled: true} // aggd has it by itself
	for _, s := range servers {
		r.servers[s.Name] = s
	}
	return r
}

// New returns an Endpoint. It serves at once, but until Reload has given it a
// policy it refuses all that needs one. Servers are reached between Start
// and Stop.
func New(cfg Config) *Endpoint {
	cfg = cfg.withDefaults()
	e := &Endpoint{cfg: cfg, pending: frame.NewBudget(maxPending), sessions: make(map[*session]struct{}), declared: make(map[string]json.RawMessage)}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.log = &lineRedactor{to: cfg.AggLog, redact: e.redact}
	e.rules.Store(newRules(nil, nil))
	e.catalogs.init(e)
	e.subs.init(e)
	e.work = workspace.New(cfg.Work, cfg.Snapshots)
	e.local = newSession(e, nil)
	return e
}

func (cfg Config) withDefaults() Config {
	if cfg.Ledger == nil {
		cfg.Ledger = func() (*ledger.DB, error) { return nil, fmt.Errorf("%w: there is none", fs.ErrUnsupported) }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.AggLog == nil {
		cfg.AggLog = io.Discard
	}
	if cfg.Event == nil {
		cfg.Event = func(string, string) {}
	}
	if cfg.Trouble == nil {
		cfg.Trouble = func(string, string) {}
	}
	if cfg.Version == "" {
		cfg.Version = "dev"
	}
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{{&cfg.CallTimeout, callTimeout}, {&cfg.Timeout, timeout}, {&cfg.Settle, settleTime}} {
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	return cfg
}

// Start starts the aggregator; servers connect in the background. The
// aggregator lives until Stop.
func (e *Endpoint) Start(ctx context.Context) error {
	if err := e.start(ctx); err != nil {
		return err
	}
	e.refresh() // Up may have come before there was an aggregator to ask
	return nil
}

func (e *Endpoint) start(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return fmt.Errorf("%w: the endpoint is closed", fs.ErrBusy)
	}
	if e.aggregator.Load() != nil || e.cfg.AggdPath == "" {
		return nil
	}
	c, err := child.Start(e.ctx, child.Config{
		Path: e.cfg.AggdPath, Args: e.cfg.AggdArgs, Servers: e.rules.Load().list, Log: e.log,
		Notify: e.notified, Request: e.asked, Down: e.down, Up: e.up,
	})
	if err != nil {
		return fmt.Errorf("aggregator: %w", err)
	}
	for _, capabilities := range e.declared {
		c.Client(ctx, capabilities) // of sessions that outlived the last one
	}
	e.aggregator.Store(c)
	return nil
}

// Stop ends the aggregator and waits for it. Sessions go on without servers.
func (e *Endpoint) Stop() error {
	c := e.aggregator.Swap(nil)
	e.catalogs.empty()
	if c == nil {
		return nil
	}
	err := c.Close()
	e.log.flush()
	return err
}

// Reload replaces servers and policy. Requests that are already decided go on;
// servers that did not change stay connected.
func (e *Endpoint) Reload(ctx context.Context, servers []wire.Server, p *policy.Policy) error {
	e.rules.Store(newRules(slices.Clone(servers), p))
	var err error
	if c := e.aggregator.Load(); c != nil {
		err = c.Refresh(ctx, servers)
	}
	e.changed("")
	return err
}

// SetPending says how many bytes the sessions may have pending together; 0 is
// the default.
func (e *Endpoint) SetPending(n int64) {
	if n <= 0 {
		n = maxPending
	}
	e.pending.Set(int(n))
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
	e.tasks.Wait()
	return err
}

// Sessions returns how many connections are being served.
func (e *Endpoint) Sessions() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.sessions)
}

// AggregatorPID returns the process id of the aggregator, 0 while none runs.
func (e *Endpoint) AggregatorPID() int {
	if c := e.aggregator.Load(); c != nil {
		return c.PID()
	}
	return 0
}

// AggregatorTrouble returns why no aggregator runs that should, else "".
func (e *Endpoint) AggregatorTrouble() string {
	if why := e.trouble.Load(); why != nil && e.aggregator.Load() != nil {
		return *why
	}
	return ""
}

// Serve serves one connection until it ends, ctx ends or the Endpoint is
// closed. It closes the connection.
func (e *Endpoint) Serve(ctx context.Context, conn net.Conn) error {
	defer conn.Close()
	s := newSession(e, conn)
	defer s.account.Close()
	if err := e.join(s); err != nil {
		return err
	}
	defer e.leave(s)
	stop := context.AfterFunc(e.ctx, s.hangUp)
	defer stop()
	stopCaller := context.AfterFunc(ctx, s.hangUp)
	defer stopCaller()
	return s.serve()
}

func (e *Endpoint) join(s *session) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return fmt.Errorf("%w: the endpoint is closed", fs.ErrBusy)
	}
	e.sessions[s] = struct{}{}
	e.tasks.Add(1)
	return nil
}

func (e *Endpoint) leave(s *session) {
	e.mu.Lock()
	delete(e.sessions, s)
	e.mu.Unlock()
	e.subs.drop(s)
	e.tasks.Done()
}

// each returns the sessions that pass the test, in no order.
func (e *Endpoint) each(test func(*session) bool) []*session {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []*session
	for s := range e.sessions {
		if test(s) {
			list = append(list, s)
		}
	}
	return list
}

// background runs f on a goroutine that Close waits for.
func (e *Endpoint) background(f func(ctx context.Context)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.tasks.Go(func() { f(e.ctx) })
}

// child returns the aggregator, or the error that says why there is none.
func (e *Endpoint) child() (*child.Child, error) {
	if c := e.aggregator.Load(); c != nil {
		return c, nil
	}
	if e.cfg.AggdPath == "" {
		return nil, fmt.Errorf("%w: there is no aggregator program", fs.ErrUnsupported)
	}
	return nil, fmt.Errorf("%w: the machine is not running", fs.ErrBusy)
}
