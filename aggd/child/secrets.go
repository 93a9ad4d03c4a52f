package child

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"hutch/aggd/wire"
	"hutch/fs"
)

const (
	// resolveTime is how long the secrets of servers may take to be had.
	resolveTime = 15 * time.Second

	// A server whose secrets cannot be had is tried again after so long, each time
	// twice as long as before.
	firstMend = 2 * time.Second
	lastMend  = time.Minute
)

// define has servers say what there is from then on, and reads the secrets of those
// that the aggregator reaches itself: of all, or only of those that were faulty.
func (c *Child) define(ctx context.Context, servers func() []wire.Server, faulty bool) error {
	select {
	case c.defining <- struct{}{}:
		defer func() { <-c.defining }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defined := servers()
	told := c.resolve(ctx, defined, faulty)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.defined, c.servers = defined, told
	if lacking(defined, told) {
		select {
		case c.faulty <- struct{}{}:
		default:
		}
	}
	return nil
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
// cannot be had has a fault, and costs the others nothing but the wait. One whose
// secrets cannot be had just now keeps those that it has, but for a Renewed token: who
// renews that knows how long it is good. faulty has those stay as they are that have
// their secrets.
func (c *Child) resolve(ctx context.Context, defined []wire.Server, faulty bool) []wire.Server {
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	told := make([]wire.Server, len(defined))
	var all sync.WaitGroup
	for i, s := range defined {
		was, known := c.before(s)
		if faulty && known && !isFaulty(was) {
			told[i] = was
			continue
		}
		all.Go(func() {
			is, err := c.cfg.Resolve.Server(ctx, s)
			switch {
			case err == nil:
				told[i] = is
			case known && !isFaulty(was) && !s.Renewed && !fs.Is(err, fs.ErrNotExist): // just now
				told[i] = was
			default:
				s.Headers, s.BearerToken, s.Fault = nil, "", err.Error()
				told[i] = s
			}
		})
	}
	all.Wait()
	return told
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
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		was := c.told()
		if c.define(ctx, c.definitions, true) != nil {
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
