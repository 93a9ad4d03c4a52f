package mcpd

import (
	"cmp"
	"context"
	"fmt"

	"hutch/mcpd/policy"
)

// Decide decides an event that is no message of MCP, by the policy that holds
// now. The answer is to allow or to block it, as a rewrite is of messages only.
func (e *Endpoint) Decide(ctx context.Context, r *policy.Event) policy.Decision {
	now := e.rules.Load()
	if now.decide == nil {
		return policy.Decision{Action: policy.Block, Reason: "there is no policy yet"}
	}
	d := now.decide(ctx, r)
	if d.Action == policy.Ask {
		d, _ = e.askPerson(ctx, Question{Event: r, Decision: d, Limit: now.askTime()}, nil) // which fails for calls only
		if d.Action == policy.Allow {
			d = e.allowed(ctx, now, r, r.Args, r.Answer, d)
		}
	}
	if d.Would != "" {
		e.observed(r, d)
	}
	if d.Action != policy.Allow {
		d.Action = policy.Block
	}
	return d
}

// observed tells of what passes only because the policy observes.
func (e *Endpoint) observed(r *policy.Event, d policy.Decision) {
	e.alert("policy.observed", d.Rule, r.Trace, fmt.Sprintf("process %s: %s %s %q would be: %s: %s: %s",
		r.Process, r.On, r.Method, e.preview(cmp.Or(r.Name, r.Host, r.Path, r.Command, r.Server), 200), d.Would, d.Rule, e.preview(d.Reason, 400)))
}
