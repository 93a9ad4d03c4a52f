// Package child runs the aggregator as a child of the host and speaks with it.
//
// The child gets an empty environment, no descriptors but its pipes and a socket,
// and a session of its own. The programs of stdio servers are started here, in its
// place (package programs). Whenever the child dies it is started again, with
// back-off: calls under way fail at once, and later ones wait a moment for the
// new child.
package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"hutch/aggd/process"
	"hutch/aggd/programs"
	"hutch/aggd/wire"
	"hutch/fs"
)

// Config says what to run and who to tell.
type Config struct {
	Path    string // the aggregator's program
	Servers []wire.Server
	Limits  wire.Limits
	Log     io.Writer       // its stderr
	Show    programs.Shower // of what programs write to theirs

	// Resolve returns the secrets that servers' definitions refer to. The aggregator
	// is told those of the servers that it reaches itself, a program has its own in
	// its environment. Nil: there are none.
	Resolve wire.Resolver

	ListWait time.Duration // how long lists wait for servers that start; 5 s where it is 0
	Grace    time.Duration // of programs, as programs.Host has it

	// Start starts what runs in a sandbox; nil: nothing does.
	Start programs.Starter
	// Notify is given each notification of a server, in order. Until it returns no more
	// is read of what the child says, answers neither.
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
	host   *programs.Host // of stdio servers
	ids    atomic.Uint64
	limits atomic.Pointer[wire.Limits] // in force
	cancel context.CancelFunc
	done   chan struct{}

	defining chan struct{} // holds a token while servers are defined: the last has the newest
	faulty   chan struct{} // has one where a server's secrets are to be tried again
	waits    atomic.Bool   // those of one were not had in promptTime: they are tried at once

	mu      sync.Mutex    // guards what follows
	defined []wire.Server // with references to secrets
	servers []wire.Server // the same as the aggregator is told them; nil: it was told nothing yet
	clients map[string]wire.ClientParams
	run     *run          // the process that runs, or nil
	cause   error         // why there is none
	change  chan struct{} // closed when run or cause changes
	closed  bool
}

var errClosed = fmt.Errorf("%w: the aggregator is closed", fs.ErrIO)

// Start starts the child. It succeeds even where there is no program to run:
// catalogs are empty then, and calls fail and say so. The child ends with ctx or
// with Close.
func Start(ctx context.Context, cfg Config) (*Child, error) {
	if cfg.Path == "" {
		return nil, fmt.Errorf("%w: no aggregator program named", fs.ErrInvalid)
	}
	ctx, cancel := context.WithCancel(ctx)
	host := programs.NewHost(cfg.Log, cfg.Start)
	host.Grace, host.Resolve, host.Show = cfg.Grace, cfg.Resolve, cfg.Show
	c := &Child{
		cfg:     cfg,
		host:    host,
		cancel:  cancel,
		done:    make(chan struct{}),
		defined: host.Define(cfg.Servers),
		clients: make(map[string]wire.ClientParams),
		change:  make(chan struct{}),

		defining: make(chan struct{}, 1),
		faulty:   make(chan struct{}, 1),
	}
	limits := cfg.Limits.WithDefaults()
	c.limits.Store(&limits)
	go c.supervise(ctx)
	return c, nil
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

// Programs returns the stdio servers that run.
func (c *Child) Programs() []programs.Process { return c.host.Processes() }

// current returns the running process, and waits a little for one that is being
// started again.
func (c *Child) current(ctx context.Context) (r *run, err error) {
	late, cancel := context.WithTimeout(ctx, process.Patience)
	defer cancel()
	err = process.Await(ctx, late.Done(), func() (over bool, change <-chan struct{}, cause error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		r = c.run
		if c.closed || errors.Is(c.cause, errClosed) {
			return true, nil, errClosed
		}
		return r != nil, c.change, c.cause
	})
	return r, err
}

// set says which process runs, or why none does.
func (c *Child) set(r *run, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run, c.cause = r, cause
	close(c.change)
	c.change = make(chan struct{})
}
