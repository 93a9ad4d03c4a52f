package mcpd

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"hutch/aggd/rawjson"
	"hutch/mcpd/policy"
)

// A Question is what a person is asked: whether an event may be of which the
// policy says that a person decides it.
type Question struct {
	Event    *policy.Event
	Decision policy.Decision // that asks, by which rule and why
	Limit    time.Duration   // how long it may wait for an answer
	Call     uint64          // in the ledger; 0: it is about none
}

// askPerson asks, and returns what was answered. What waits, if it has a row, is
// in the ledger as asked before, and who waits is told meanwhile.
func (e *Endpoint) askPerson(ctx context.Context, q Question, w *row) (policy.Decision, *Error) {
	if e.cfg.Ask == nil {
		q.Decision.Action, q.Decision.Reason = policy.Block, "there is nobody to ask"
		return q.Decision, nil
	}
	if w != nil {
		if err := w.asked(ctx, q.Decision); err != nil {
			return q.Decision, err
		}
		q.Call = w.id
		if w.tell != nil {
			defer w.tell(q.Decision.Reason)()
		}
	}
	return e.cfg.Ask(ctx, q), nil
}

// allowed returns what comes of it that a person has allowed what the policy of
// before asked about: it goes on as that had rewritten it, or, if another policy
// has taken its place, as the other one has it, unless that blocks it, as nobody
// was asked about that. The event is decided anew as it came, with those
// arguments and that result.
func (e *Endpoint) allowed(ctx context.Context, before *rules, r *policy.Event, args, result json.RawMessage, d policy.Decision) policy.Decision {
	if now := e.rules.Load(); now != before && now.decide != nil {
		again := *r
		again.Args, again.Answer, again.Trial = args, result, true // it has been counted
		other := now.decide(ctx, &again)
		if other.Action == policy.Block {
			return other
		}
		d.Rewritten = other.Rewritten
	}
	if d.Rewritten != nil {
		d.Action = policy.Rewrite
	}
	return d
}

// tellWait tells the guest, if it wants to know of progress, that the call waits
// for a person, now and again until stop is called.
func (c *call) tellWait(reason string) (stop func()) {
	token := c.meta.get(mToken)
	if token == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		again := time.NewTicker(c.session.e.cfg.AskNews)
		defer again.Stop()
		for n := 0; ; n++ {
			c.session.notify("notifications/progress", waitNews(token, n, reason))
			select {
			case <-again.C:
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended // nothing is told after the answer
	}
}

// waitNews are the params of the nth progress notification of a wait. Progress
// has to grow with each, and the server's own, if any follow, begins at about 0.
func waitNews(token []byte, n int, reason string) []byte {
	b := append(append([]byte(`{"progressToken":`), token...), `,"progress":`...)
	b = strconv.AppendFloat(b, float64(n)*1e-6, 'f', -1, 64)
	return append(rawjson.AppendString(append(b, `,"message":`...), "waiting for a person to decide: "+reason), '}')
}
