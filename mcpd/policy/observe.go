package policy

import "slices"

// Enforce is the mode in which a policy does what it says, and the usual one.
const Enforce = "enforce"

// unobserved are the rules that refuse in either mode: what there is not cannot be
// let pass, what is too much cannot be decided about, and what cmd.run may run
// is what there is of it.
var unobserved = []string{ruleUnregistered, ruleSize, RuleCommands}

// observes says whether a decision is only to be told. What corp says counts all
// the same.
func (p *Policy) observes(d *Decision) bool {
	refuses := d.Action == Ask || d.Action == Block
	return p.observe && refuses && d.Layer != LayerCorp && !slices.Contains(unobserved, d.Rule)
}

// passed returns the decision to let pass what d refuses.
func (d Decision) passed() Decision {
	d.Would, d.Action = d.Action, Allow
	d.Code, d.RetryAfter = nil, 0
	return d
}
