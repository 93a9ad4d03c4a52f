package mcpd

import (
	"context"

	"hutch/mcpd/policy"
)

// Decide decides an event that is no message of MCP, by the policy that holds
// now. The answer is to allow or to block it, as a rewrite is of messages only.
func (e *Endpoint) Decide(ctx context.Context, r *policy.Event) policy.Decision {
	decide := e.rules.Load().decide
	if decide == nil {
		return policy.Decision{Action: policy.Block, Reason: "there is no policy yet"}
	}
	d := decide(ctx, r)
	if d.Action != policy.Allow {
		d.Action = policy.Block
	}
	return d
}
