package aggd

import (
	"context"
	"fmt"
	"time"

	"hutch/aggd/wire"
)

// A kept server that leaves so many questions in a row unanswered is unhealthy, and
// is connected anew.
const (
	sickAfter = 3
	deadAfter = 6
)

// checkups tells when the server is to be asked whether it answers; never, where
// the host does not want that.
func (u *upstream) checkups() (due <-chan time.Time, stop func()) {
	every := u.health()
	if every <= 0 {
		return nil, func() {}
	}
	t := time.NewTicker(every)
	return t.C, t.Stop
}

// healthTime is how often a server over HTTP that is not kept is asked whether it answers.
const healthTime = 30 * time.Second

// health returns how often the server is asked; 0: never.
func (u *upstream) health() time.Duration {
	if u.def.Keep || u.def.Stdio() { // the end of a program is seen
		return time.Duration(u.def.Health)
	}
	return or(u.def.Health, healthTime)
}

// examine asks the server whether it answers, and gives it half the time until the
// next question. One that has a request to do is left alone: it may do one thing at
// a time, and the request has a limit of its own.
func (u *upstream) examine(ctx context.Context, c *conn) {
	if c.occupied() {
		return
	}
	wait := u.health() / 2
	limit, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("the server has not answered a ping within %v", wait))
	defer cancel()
	method := "ping"
	if c.stateless.Load() {
		method = methodDiscover
	}
	o := c.call(limit, nil, u.client, method, nil)
	err := o.err // an error that it answers is an answer
	switch {
	case ctx.Err() != nil || c.isOver():
		return
	case c.pinged && c.refusesSession(o.failure()):
		c.fail(errSession)
		return
	}
	c.pinged = c.pinged || err == nil
	u.mu.Lock()
	was := u.ill
	if err == nil {
		u.unanswered, u.ill = 0, nil
	} else if u.unanswered++; u.unanswered >= sickAfter {
		u.ill = err
	}
	dead := u.unanswered >= deadAfter
	changed := (was == nil) != (u.ill == nil)
	u.mu.Unlock()
	if changed {
		u.tellState()
	}
	if !dead {
		return
	}
	if u.def.served != nil {
		u.def.served.stop()
	}
	c.fail(err) // watch sees to the rest
}

// occupied reports whether a request is under way, streams of news apart.
func (c *conn) occupied() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.calls {
		if q.acknowledged == nil {
			return true
		}
	}
	return false
}

// tellState tells the host that the state of a kept server may be another.
func (u *upstream) tellState() {
	if u.def.Keep {
		u.agg.tell("notification", 0, u.client, u.name, wire.StateChanged, nil, nil)
	}
}
