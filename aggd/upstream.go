package aggd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// Back-off between two tries to connect: doubling, with up to half of it taken
// away by chance. A call brings the next try forward, though after a second
// failure no sooner than callPause after the last try.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 30 * time.Second
	callPause  = time.Second
	goodRun    = 10 * time.Second // a connection that lived so long was none of the failures
)

// An upstream is the place of one connection: that of a server, for clients of
// one set of capabilities. Its goroutine, run, makes the connection and sees to
// its end.
//
//	stopped → starting ⇄ failed
//	   ↑         ↓          ↑
//	   └──── connected ─────┘
type upstream struct {
	agg          *aggregator
	name         string
	def          definition
	era          *atomic.Uint32 // what the server was seen to speak; of all its connections
	client       string         // the key of the capabilities
	capabilities json.RawMessage
	newer        bool // speaks 2026-07-28 where the server has a choice
	lazy         bool // connects when it is needed, and not before
	timedOut     error
	cancel       context.CancelFunc
	done         chan struct{}
	kick         chan struct{} // wakes run: somebody needs the connection
	lacks        chan struct{} // wakes relist: a list was not given

	kept    atomic.Int64 // bytes of the lists
	fetched atomic.Int64 // which fetch of the aggregator's brought the last
	asking  atomic.Int32 // requests under way for the lists

	mu      sync.Mutex // guards what follows
	state   string
	cause   error // of the last failure
	conn    *conn
	session session // what the server said at initialize, last time
	tries   int     // tries that have ended

	unanswered int   // questions in a row whether it answers
	ill        error // why it is taken for unhealthy

	tried    time.Time     // when the last one began
	failures int           // in a row
	late     bool          // a list has waited for it in vain
	lent     time.Time     // when the host was last given another connection's list; zero: it has this one's
	change   chan struct{} // closed when the state changes
	busy     int           // users of conn
	used     time.Time     // when the last one left
	lists    map[*wire.List]*cachedList
	headers  map[string][]headerParam // of the tools, by name
	sticky   sticky
}

var (
	// errClosed is returned for calls to a server that is no longer defined.
	errClosed = errors.New("the server was removed or the aggregator is shutting down")
	// errIdle ends a connection that nobody uses.
	errIdle = errors.New("the server was stopped because nobody used it")
	// errSession is returned when the server does not know the session any more.
	errSession = errors.New("the server has forgotten the session")
	// errOver is returned when the session ended before a request was sent.
	errOver = errors.New("the session is over")
	// errNotSent is returned when a request cannot have reached the server.
	errNotSent = errors.New("not reached")
)

func newUpstream(agg *aggregator, def definition, era *atomic.Uint32, client string, offered wire.ClientParams, lazy bool) *upstream {
	ctx, cancel := context.WithCancel(context.Background())
	u := &upstream{
		agg:          agg,
		name:         def.Name,
		def:          def,
		era:          era,
		client:       client,
		capabilities: offered.Capabilities,
		newer:        offered.Stateless || client == "",
		lazy:         lazy,
		timedOut:     fmt.Errorf("timed out: server %s did not answer within %v", def.Name, def.callTimeout()),
		cancel:       cancel,
		done:         make(chan struct{}),
		kick:         make(chan struct{}, 1),
		lacks:        make(chan struct{}, 1),
		state:        wire.Stopped,
		change:       make(chan struct{}),
		lists:        newLists(),
		sticky:       sticky{subscriptions: make(map[string]json.RawMessage)},
	}
	if !lazy {
		u.state = wire.Starting
	}
	go u.run(ctx)
	return u
}

// close ends the upstream and waits.
func (u *upstream) close() {
	u.cancel()
	<-u.done
}

func (u *upstream) logf(format string, args ...any) {
	u.agg.logf("%s: %s", u.name, fmt.Sprintf(format, args...))
}

// run owns the connection.
func (u *upstream) run(ctx context.Context) {
	defer close(u.done)
	defer u.set(wire.Stopped, errClosed)
	for u.awaitTurn(ctx) {
		u.set(wire.Starting, nil)
		c, err := u.connect(ctx)
		if err != nil {
			if ctx.Err() == nil {
				u.failed(err)
			}
			continue
		}
		u.connected(c)
		u.agg.tasks.Go(func() { u.relist(c) })
		u.watch(ctx, c)
	}
}

// awaitTurn waits until it is time to connect; false means never.
func (u *upstream) awaitTurn(ctx context.Context) bool {
	u.mu.Lock()
	state, failures, tried := u.state, u.failures, u.tried
	wanted := !u.lazy || state == wire.Failed && time.Since(u.lent) < u.def.idleTimeout()
	u.mu.Unlock()
	if state == wire.Starting {
		return ctx.Err() == nil
	}
	var due <-chan time.Time
	if wanted {
		timer := time.NewTimer(backOff(failures))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-due:
		return true
	case <-u.kick:
	}
	if failures < 2 {
		return true
	}
	return pause(time.Until(tried.Add(callPause)), ctx.Done(), nil)
}

// pause waits for d; it returns false when one of the channels is closed first.
func pause(d time.Duration, a, b <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-a:
	case <-b:
	}
	return false
}

func backOff(failures int) time.Duration {
	d := min(firstPause<<min(max(failures-1, 0), 10), lastPause)
	return d - time.Duration(rand.Int64N(int64(d)/2))
}

// watch waits for the end of a connection, and ends one that is idle.
func (u *upstream) watch(ctx context.Context, c *conn) {
	idle := time.NewTimer(u.def.idleTimeout())
	defer idle.Stop()
	checkup, stop := u.checkups()
	defer stop()
	began := time.Now()
	for {
		select {
		case <-ctx.Done():
			c.end(errClosed)
			return
		case <-c.over:
			c.transport.close()
			u.lost(c, time.Since(began))
			return
		case <-checkup:
			u.examine(ctx, c)
		case <-idle.C:
			left := u.retire()
			if left <= 0 {
				u.logf("stopped: unused for %v", u.def.idleTimeout())
				c.end(errIdle)
				return
			}
			idle.Reset(left)
		}
	}
}

// retire takes the connection out of use if nobody has used it for long, or
// returns how long to wait before asking again.
func (u *upstream) retire() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	limit := u.def.idleTimeout()
	if u.busy > 0 || len(u.sticky.subscriptions) > 0 || !u.lazy {
		return limit
	}
	if left := time.Until(u.used.Add(limit)); left > 0 {
		return left
	}
	u.setLocked(wire.Stopped, nil)
	return 0
}

// connected puts a connection into use.
func (u *upstream) connected(c *conn) {
	u.mu.Lock()
	u.conn, u.used = c, time.Now()
	u.late, u.lent, u.unanswered, u.ill = false, time.Time{}, 0, nil
	for _, s := range u.lists {
		u.late = u.late || s.err != nil && !errors.Is(s.err, errListing)
	}
	select {
	case <-u.kick: // it came for this one
	default:
	}
	u.setLocked(wire.Connected, nil)
	u.mu.Unlock()
	u.tellState()
	u.tellChanges()
}

// lost notes the end of a connection that worked. Where the server has only
// forgotten the session, it is asked for another one at once.
func (u *upstream) lost(c *conn, lived time.Duration) {
	u.logf("connection lost: %v", c.cause)
	again := unusable(c.cause)
	u.mu.Lock()
	if lived > goodRun {
		u.failures = 0
	}
	if again {
		u.setLocked(wire.Starting, nil)
	} else {
		u.failures++
		u.setLocked(wire.Failed, c.cause)
	}
	u.mu.Unlock()
	u.tellState()
	if !again {
		reason := slices.Concat([]byte(`{"reason":`), rawjson.Quote(c.cause.Error()), []byte("}"))
		u.agg.tell("notification", 0, u.client, u.name, wire.Lost, reason, nil)
	}
}

// failed notes a try that came to nothing.
func (u *upstream) failed(err error) {
	defer u.tellState()
	u.logf("%v", err)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.failures++
	u.late = true // lists do not wait for it again
	u.setLocked(wire.Failed, err)
}

func (u *upstream) set(state string, cause error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.setLocked(state, cause)
}

// setLocked changes the state and tells those who wait for that; mu is held.
func (u *upstream) setLocked(state string, cause error) {
	switch {
	case state == wire.Starting:
		u.tried = time.Now()
	case u.state == wire.Starting:
		u.tries++
	}
	if state != wire.Connected {
		u.conn = nil
	}
	if state != wire.Starting {
		u.cause = cause
	}
	u.state = state
	close(u.change)
	u.change = make(chan struct{})
}
