package policy

// Enforce is the mode in which a policy does what it says, and the usual one.
const Enforce = "enforce"

// observes says whether a decision is only to be told. What corp says counts all
// the same, and so does what is firm: a tool that there is not cannot be called,
// what is too much cannot be decided about, cmd.run has no other commands than
// its list, and what is to be rewritten does not pass as it is.
func (p *Policy) observes(d *Decision) bool {
	refuses := d.Action == Ask || d.Action == Block
	return p.observe && refuses && d.Layer != LayerCorp && !d.firm
}

// passed returns the decision to let pass what d refuses.
func (d Decision) passed() Decision {
	d.Would, d.Action = d.Action, Allow
	d.Code, d.RetryAfter = nil, 0
	return d
}
