package mcpd

import "sync/atomic"

// A Count says what became of an endpoint's calls since it was made.
// Of those that have begun, some may not have ended yet.
type Count struct{ Begun, Allowed, Denied, Failed int64 }

type counters struct{ begun, allowed, denied, failed atomic.Int64 }

func (c *counters) add(denied bool, err *Error) {
	switch {
	case denied:
		c.denied.Add(1)
	case err != nil:
		c.failed.Add(1)
	default:
		c.allowed.Add(1)
	}
}

// Count returns the endpoint's counters.
func (e *Endpoint) Count() Count {
	return Count{e.count.begun.Load(), e.count.allowed.Load(), e.count.denied.Load(), e.count.failed.Load()}
}
