package policy

// Enforce is the mode in which a policy does what it says, and the usual one.
const Enforce = "enforce"

// observes says whether a decision is only to be told. What corp says counts all
// the same, and where no such tool is there is nothing that could be let pass;
// what is too much cannot be decided about at all.
func (p *Policy) observes(d *Decision) bool {
	refuses := d.Action == Ask || d.Action == Block
	return p.observe && refuses && d.Layer != LayerCorp && d.Rule != ruleUnregistered && d.Rule != ruleSize
}

// passed returns the decision to let pass what d refuses.
func (d Decision) passed() Decision {
	d.Would, d.Action = d.Action, Allow
	d.Code, d.RetryAfter = nil, 0
	return d
}
