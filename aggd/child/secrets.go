package child

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"hutch/aggd/wire"
	"hutch/fs"
)

const (
	// resolveTime is how long the secrets of servers may take to be had, and promptTime
	// how long others wait for those of one that has had none yet.
	resolveTime = 15 * time.Second
	promptTime  = 2 * time.Second

	// A server whose secrets cannot be had is tried again after so long, each time
	// twice as long as before.
	firstMend = 2 * time.Second
	lastMend  = time.Minute
)

// errWaits is the fault of a server whose secrets are being asked for.
var errWaits = fmt.Errorf("%w: it waits for its secrets or its token, which did not come within %v", fs.ErrTimedOut, promptTime)

// define has servers say what there is from then on, and reads the secrets of those
// that the aggregator reaches itself.
func (c *Child) define(ctx context.Context, servers func() []wire.Server) error {
	select {
	case c.defining <- struct{}{}:
		defer func() { <-c.defining }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defined := servers()
	told := c.resolve(ctx, defined)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.defined, c.servers = defined, told
	c.lack()
	return nil
}

// lack has servers be tried again whose secrets could not be had. Its caller holds mu.
func (c *Child) lack() {
	if lacking(c.defined, c.servers) {
		select {
		case c.faulty <- struct{}{}:
		default:
		}
	}
}

// lacking says whether secrets of servers could not be had. What is wrong with how a
// server is defined is so until it is defined anew.
func lacking(defined, told []wire.Server) bool {
	for i := range told {
		if isFaulty(told[i]) && !isFaulty(defined[i]) {
			return true
		}
	}
	return false
}

func isFaulty(s wire.Server) bool { return s.Fault != "" }

// definitions returns the servers as they are defined.
func (c *Child) definitions() []wire.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.defined
}

// told returns the servers as the aggregator is to be told them.
func (c *Child) told() []wire.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.servers
}

// resolve returns servers with the secrets that they refer to. One whose secrets
// cannot be had has a fault, and costs the others nothing but the wait, which is
// short where it has had none: mend waits longer for them. One whose secrets cannot be
// had just now keeps those that it has, but for a Renewed token: who renews that knows
// how long it is good.
func (c *Child) resolve(ctx context.Context, defined []wire.Server) []wire.Server {
	told := make([]wire.Server, len(defined))
	var all sync.WaitGroup
	for i, s := range defined {
		was, known := c.before(s)
		has, limit, late := known && !isFaulty(was), promptTime, errWaits
		if has {
			limit, late = resolveTime, errSilent
		}
		all.Go(func() {
			var err error
			told[i], err = c.withSecrets(ctx, s, limit, late)
			if err != nil && has && !s.Renewed && !fs.Is(err, fs.ErrNotExist) { // just now
				told[i] = was
			}
		})
	}
	all.Wait()
	return told
}

// errSilent is the fault of a server whose secrets cannot be had in time.
var errSilent = fmt.Errorf("%w: no answer within %v", fs.ErrTimedOut, resolveTime)

// withSecrets returns a server with its secrets, or with a fault and what that is. late is
// why, where limit has passed.
func (c *Child) withSecrets(ctx context.Context, s wire.Server, limit time.Duration, late error) (wire.Server, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	is, err := c.cfg.Resolve.Server(ctx, s)
	if err == nil {
		return is, nil
	}
	if errors.Is(err, context.DeadlineExceeded) && context.Cause(ctx) == late { // of who does not say the cause
		err = late
	}
	if errors.Is(err, errWaits) {
		c.waits.Store(true)
	}
	s.Headers, s.BearerToken, s.Fault = nil, "", err.Error()
	return s, err
}

// remedy reads the secrets again of the servers that have a fault. Nobody waits for that,
// so they may be defined anew meanwhile.
func (c *Child) remedy(ctx context.Context) {
	c.mu.Lock()
	defined, told := c.defined, slices.Clone(c.servers)
	c.mu.Unlock()
	was := slices.Clone(told)
	var all sync.WaitGroup
	for i, s := range defined {
		if isFaulty(was[i]) {
			all.Go(func() { told[i], _ = c.withSecrets(ctx, s, resolveTime, errSilent) })
		}
	}
	all.Wait()
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := slices.Clone(c.servers)
	for i, s := range c.defined {
		at := slices.IndexFunc(defined, func(d wire.Server) bool { return reflect.DeepEqual(d, s) })
		if at >= 0 && isFaulty(was[at]) && isFaulty(now[i]) {
			now[i] = told[at]
		}
	}
	c.servers = now
	c.lack()
}

// before returns what the aggregator was told of a server, if that was defined as it
// is now.
func (c *Child) before(s wire.Server) (told wire.Server, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.defined, func(d wire.Server) bool { return reflect.DeepEqual(d, s) })
	if i < 0 || c.servers == nil {
		return s, false
	}
	return c.servers[i], true
}

// mend tries the servers again whose secrets could not be had, while the process r
// runs.
func (c *Child) mend(ctx context.Context, r *run) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	for pause := firstMend; ; {
		select {
		case <-c.faulty:
		case <-ctx.Done():
			return
		}
		was := c.told()
		if !c.waits.Swap(false) { // others do not wait for those, and they are waited for longer here
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
		}
		c.remedy(ctx)
		if ctx.Err() != nil {
			return
		}
		told := c.told()
		id := c.ids.Add(1)
		if line, err := encode(id, wire.Refresh, wire.RefreshParams{Servers: told}); err == nil {
			r.exchange(ctx, id, wire.Call{}, line) // those that are faulty still are its error
		}
		r.mended(was, told)
		pause = min(2*pause, lastMend)
		if len(c.faulty) == 0 { // all is mended
			pause = firstMend
		}
	}
}

// mended tells that those servers may have lists which are faulty no more: nobody has
// asked for them before.
func (r *run) mended(was, told []wire.Server) {
	for _, s := range told {
		faulty := func(b wire.Server) bool { return b.Name == s.Name && isFaulty(b) }
		if isFaulty(s) || !slices.ContainsFunc(was, faulty) {
			continue
		}
		for _, l := range wire.Lists {
			r.notified(wire.Notification{Server: s.Name, Method: l.Changed})
		}
	}
}
