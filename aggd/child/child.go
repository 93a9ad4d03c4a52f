// Package child runs the aggregator as a child of the host and speaks with it.
//
// The child gets an empty environment, no descriptors but its pipes and a session
// of its own; it is started again, with back-off, whenever it dies. What was under
// way then fails at once; what comes later waits a moment for the new one.
package child

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"hutch/aggd/wire"
	"hutch/fs"
)

// Config says what to run and who to tell. Every callback is optional.
type Config struct {
	Path    string   // the aggregator's program
	Args    []string // its flags
	Servers []wire.Server
	Log     io.Writer // its stderr

	// MaxRequest and MaxResult are the limits of a line to and from the child;
	// wire.MaxRequest and wire.MaxResult where 0.
	MaxRequest, MaxResult int

	// Notify is given each notification of a server, in order. It must not block.
	Notify func(wire.Notification)
	// Request answers a server's request with a result or an error object. It
	// runs on a goroutine of its own; ctx ends when the server or the child
	// gives up.
	Request func(ctx context.Context, r wire.ServerRequest) (result, rpcError json.RawMessage)
	// Down is called when the child died or could not be started, Up when it
	// runs again. They must not block.
	Down func(err error)
	Up   func()
}

// A Child is an aggregator that is kept running.
type Child struct {
	cfg    Config
	ids    atomic.Uint64
	cancel context.CancelFunc
	done   chan struct{}

	// mu guards the fields below.
	mu      sync.Mutex
	servers []wire.Server
	clients map[string]json.RawMessage
	run     *run          // the process that runs, or nil
	cause   error         // why there is none
	missing bool          // there is none because there is no program
	change  chan struct{} // closed when run or cause changes
	closed  bool
}

// patience is how long a request waits for a child that died and is being
// started again.
const patience = time.Second

// Start starts the child. It succeeds even where there is no program to run:
// catalogs are empty then, and calls fail and say so. The child ends with ctx or
// with Close.
func Start(ctx context.Context, cfg Config) (*Child, error) {
	if cfg.Path == "" {
		return nil, fmt.Errorf("%w: no aggregator program named", fs.ErrInvalid)
	}
	cfg = cfg.withDefaults()
	ctx, cancel := context.WithCancel(ctx)
	c := &Child{
		cfg:     cfg,
		cancel:  cancel,
		done:    make(chan struct{}),
		servers: cfg.Servers,
		clients: make(map[string]json.RawMessage),
		change:  make(chan struct{}),
	}
	go c.supervise(ctx)
	return c, nil
}

func (cfg Config) withDefaults() Config {
	if cfg.MaxRequest == 0 {
		cfg.MaxRequest = wire.MaxRequest
	}
	if cfg.MaxResult == 0 {
		cfg.MaxResult = wire.MaxResult
	}
	if cfg.Log == nil {
		cfg.Log = io.Discard
	}
	if cfg.Notify == nil {
		cfg.Notify = func(wire.Notification) {}
	}
	if cfg.Request == nil {
		cfg.Request = func(context.Context, wire.ServerRequest) (json.RawMessage, json.RawMessage) {
			return nil, json.RawMessage(`{"code":-32601,"message":"method not found"}`)
		}
	}
	if cfg.Down == nil {
		cfg.Down = func(error) {}
	}
	if cfg.Up == nil {
		cfg.Up = func() {}
	}
	return cfg
}

// Close ends the child: it is asked to shut down, and killed with all it started
// when it does not. Close waits until nothing of it is left.
func (c *Child) Close() error {
	c.mu.Lock()
	c.closed = true
	r := c.run
	c.mu.Unlock()
	if r != nil {
		r.request(c.ids.Add(1), wire.Shutdown, nil)
	}
	c.cancel()
	<-c.done
	return nil
}

// PID returns the id of the process that runs, 0 while there is none.
func (c *Child) PID() int {
	c.mu.Lock()
	r := c.run
	c.mu.Unlock()
	if r == nil {
		return 0
	}
	return r.p.PID()
}

// current returns the running process. While one is being started again it
// waits a little; the first it awaits, for that runs soon, or says why not.
func (c *Child) current(ctx context.Context) (*run, error) {
	patient := time.NewTimer(patience)
	defer patient.Stop()
	for late := false; ; {
		c.mu.Lock()
		r, cause, missing, change, closed := c.run, c.cause, c.missing, c.change, c.closed
		c.mu.Unlock()
		switch {
		case closed:
			return nil, fmt.Errorf("%w: the aggregator is closed", fs.ErrIO)
		case r != nil:
			return r, nil
		case missing:
			return nil, cause
		case late && cause != nil:
			return nil, fmt.Errorf("%w: the aggregator is down: %w", fs.ErrIO, cause)
		}
		select {
		case <-change:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-c.done:
			return nil, fmt.Errorf("%w: the aggregator is closed", fs.ErrIO)
		case <-patient.C:
			late = true
		}
	}
}

// set says which process runs, or why none does.
func (c *Child) set(r *run, cause error, missing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run, c.cause, c.missing = r, cause, missing
	close(c.change)
	c.change = make(chan struct{})
}
