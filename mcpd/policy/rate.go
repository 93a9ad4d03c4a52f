package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"hutch/fs/quantity"
)

// A usage is how much a capability is being used. It outlives a reload.
type usage struct {
	limit   string        // as the profile says it
	bucket  *rate.Limiter // nil: as often as anybody likes
	running *atomic.Int64 // calls under way
}

func newUsage(limit string) (*usage, error) {
	u := &usage{limit: limit, running: new(atomic.Int64)}
	if limit == "" {
		return u, nil
	}
	count, per, _ := strings.Cut(limit, "/")
	calls, err := strconv.ParseUint(count, 10, 31)
	every, timeErr := quantity.Time(per)
	if err != nil || timeErr != nil || calls == 0 || every < time.Millisecond {
		return nil, fmt.Errorf("%.64q is no rate like 20/1m: a number of calls, a slash and the time they are for", limit)
	}
	u.bucket = rate.NewLimiter(rate.Limit(float64(calls)/every.Seconds()), int(calls))
	return u, nil
}

// Use returns p for one endpoint, with no hits, and with calls counted anew or, of capabilities
// that the policy before it had with the same rate, on.
func (p *Policy) Use(before *Policy) *Policy {
	next := *p
	next.order(p.rules)
	next.defaultTally = new(tally)
	next.capabilities = nil
	for _, c := range p.capabilities {
		c := *c
		c.usage, _ = newUsage(c.Rate)
		c.usage.takeOver(before.usageOf(c.Name))
		next.capabilities = append(next.capabilities, &c)
	}
	return &next
}

func (p *Policy) usageOf(name string) *usage {
	if p == nil {
		return nil
	}
	for _, c := range p.capabilities {
		if c.Name == name {
			return c.usage
		}
	}
	return nil
}

func (u *usage) takeOver(before *usage) {
	if before == nil {
		return
	}
	u.running = before.running
	if u.limit == before.limit {
		u.bucket = before.bucket
	}
}

// tryRates takes a call from the rate of a capability that allows it, and
// refuses it where none has one left. It takes the call from the capability that
// Acquire will count it for: one with room, if there is any.
func (p *Policy) tryRates(e *Event) *Decision {
	if e.On != OnRequest && e.On != OnHTTP || len(e.passed) == 0 || e.Listing || e.Trial {
		return nil
	}
	now := p.now()
	slices.SortStableFunc(e.passed, func(a, b *capability) int { return cmp.Compare(a.full(), b.full()) })
	var soonest *capability
	var wait time.Duration
	for i, c := range e.passed {
		b := c.usage.bucket
		if b == nil || b.AllowN(now, 1) {
			e.passed = e.passed[i : i+1]
			return nil
		}
		after := time.Duration((1 - b.TokensAt(now)) / float64(b.Limit()) * float64(time.Second))
		if soonest == nil || after < wait {
			soonest, wait = c, after
		}
	}
	wait = max(wait, time.Millisecond).Round(time.Millisecond)
	d := soonest.block(refuse(RateLimitExceeded, "more calls than %s: try again in %s", soonest.Rate, quantity.TimeText(wait)))
	d.RetryAfter = wait
	return d
}

// full is 1 where as many calls of c are under way as may be, else 0.
func (c *capability) full() int {
	if c.MaxConcurrent > 0 && c.usage.running.Load() >= int64(c.MaxConcurrent) {
		return 1
	}
	return 0
}

// Acquire counts a call that a Policy allowed as under way, until release is called,
// which is nil if nothing counts it. It refuses one too many, or says that it would
// if the Policy did not only observe.
func (e *Event) Acquire() (release func(), refused *Decision) {
	if len(e.passed) == 0 || e.passed[0].MaxConcurrent == 0 {
		return nil, nil
	}
	c := e.passed[0]
	if c.usage.running.Add(1) <= int64(c.MaxConcurrent) {
		return c.usage.end, nil
	}
	refused = c.block(refuse(ConcurrencyExceeded, "%d calls are under way, no more are allowed at once: try again when one has ended", c.MaxConcurrent))
	if c.observe {
		passed := refused.passed()
		return c.usage.end, &passed
	}
	c.usage.end()
	return nil, refused
}

// end counts a call as no longer under way.
func (u *usage) end() { u.running.Add(-1) }
