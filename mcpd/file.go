package mcpd

import (
	"time"

	"hutch/mcpd/ledger"
	"hutch/mcpd/policy"
	"hutch/mcpd/workspace"
)

// A fileCall is what a call does to the workspace.
type fileCall struct {
	*workspace.Call
	op workspace.Operation // that was decided on

	// What came of it, once it ran.
	ran  bool
	took time.Duration
	done workspace.Done
}

// ruleTraversal is the rule that no profile has: what could lead out of the
// workspace is refused before anything else is asked.
const ruleTraversal = "traversal"

// refuseTraversal refuses a call whose path has a ".." in it, or leads out of
// the workspace by a link.
func (c *call) refuseTraversal(r *policy.Event) *Error {
	if c.file == nil {
		return nil
	}
	why := c.file.Traversal()
	if why == nil {
		return nil
	}
	return c.block(r, policy.Decision{Rule: ruleTraversal, Reason: why.Error(), Code: policy.PathTraversalAttempt})
}

// decideFile asks the policy about the call's operation on a file. An allow here
// does not replace the call's verdict in the ledger.
func (c *call) decideFile() *Error {
	if c.file == nil {
		return nil
	}
	op, ok := c.file.Operation()
	if !ok {
		return c.refuseTraversal(c.question(nil)) // by a link
	}
	c.file.op = op
	r := c.question(nil)
	r.On, r.Operation, r.Path, r.Bytes = policy.OnFile, op.Name, op.Path, op.Bytes
	err := c.decidePart(r)
	if p := c.session.e.rules.Load().policy; p != nil && p.About(policy.OnFile) {
		c.file.Admits = c.session.e.admits(p, *r)
	}
	return err
}

// decidePart asks the policy about what the call would really do.
func (c *call) decidePart(r *policy.Event) *Error {
	v, err := c.session.e.decide(c.ctx, r, &c.row)
	if v.denied || v.asked || v.action == policy.Observe {
		c.verdict = v
	}
	return err
}

// admits returns what decides by a policy whether a search, which the event is
// about, may look into a file or folder that it finds. What a person would be
// asked about it may not: that can be many.
func (e *Endpoint) admits(p *policy.Policy, search policy.Event) func(path string) bool {
	told := false
	return func(path string) bool {
		r := search
		r.Path, r.Bytes = path, 0
		d := p.Decide(&r)
		if d.Would != "" && !told {
			told = true
			e.observed(&r, d)
		}
		return d.Action == policy.Allow
	}
}

// recordFile writes down the call's operation on a file, and what came of it.
func (c *call) recordFile(err *Error) {
	if c.file == nil {
		return
	}
	op := c.file.op
	if op.Name == "" { // refused before
		var ok bool
		if op, ok = c.file.Operation(); !ok && !c.verdict.denied && op.Name == "" {
			return
		}
	}
	r := ledger.Row{
		"timestamp": c.begun, "operation": op.Name, "path": op.Path, "source": c.tool,
		"process_name": c.process, "mcp_call_id": c.row.id, "trace_id": c.trace.ID(), "outcome": ledger.OK,
		"policy_rule": c.verdict.rule, "policy_reason": c.verdict.reason,
	}
	switch {
	case c.verdict.denied:
		r["outcome"] = "denied"
	case err != nil:
		r["outcome"], r["error_message"] = ledger.Failed, err.Message
	case c.file.done.Err != nil:
		r["outcome"], r["error_message"] = ledger.Failed, c.file.done.Err.Error()
	}
	if c.file.ran {
		r["bytes"], r["duration_ms"] = c.file.done.Bytes, c.file.took
	}
	c.row.db.Queue(c.session.e.ctx, ledger.Files, r)
}
