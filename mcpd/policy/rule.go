package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"hutch/aggd/rawjson"
	"hutch/fs"
)

// The rules that no profile has.
const (
	RuleDefault      = "default"
	RuleUnregistered = "unregistered"
	RulePin          = "pin" // which no policy has: a tool changed since it was approved
)

// RuleNetwork is what allows a request to the proxy where no rule decides: the
// policy is asked only about those that this list allows.
const RuleNetwork = "network.allow"

// A rule is a Rule that is compiled. One that is made of a server's list has a
// match of its own in the place of a condition.
type rule struct {
	Rule
	cond   *condition          // nil: there is none
	match  func(*Event) string // nil: the condition counts; else the reason, "" if it does not hold
	list   []string            // that it was made of
	unless bool                // it blocks what is not of the list
	code   *Code               // of what it blocks; nil: ToolExplicitlyDenied
	firm   bool                // it blocks where the policy only observes, too
	looks  looking
	edits  []edit // of Rewrite
	tally  *tally
}

// compileRules compiles the rules of c and those that its lists are.
func (p *Policy) compileRules(c Config) error {
	p.rules = append(listRules(c.Lists), &rule{
		Rule:  Rule{ID: RuleUnregistered, On: OnRequest, Decision: Block, Priority: PriorityLists},
		match: unregistered, code: ToolNotAllowed, firm: true,
	})
	for _, r := range c.Rules {
		compiled, err := compileRule(r)
		if err != nil {
			return err
		}
		p.rules = append(p.rules, compiled)
	}
	slices.SortStableFunc(p.rules, func(a, b *rule) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.ID, b.ID))
	})
	p.placeAnswers()
	p.order(p.rules)
	return nil
}

// placeAnswers puts each rule that answers another right before that one. A
// rule that answers none that there is, or one of corp's, is not tried.
func (p *Policy) placeAnswers() {
	answers := make(map[string][]*rule)
	p.rules = slices.DeleteFunc(p.rules, func(r *rule) bool {
		if r.Answers != "" {
			answers[r.Answers] = append(answers[r.Answers], r)
		}
		return r.Answers != ""
	})
	if len(answers) == 0 {
		return
	}
	var placed []*rule
	for _, r := range p.rules {
		if r.Decision == Ask && r.Layer != LayerCorp {
			placed = append(placed, answers[r.ID]...)
		}
		placed = append(placed, r)
	}
	p.rules = placed
	if p.byDefault.Action == Ask {
		p.rules = append(p.rules, answers[RuleDefault]...)
	}
}

// order makes rules, in the order in which they are tried, those of p, with no
// hits.
func (p *Policy) order(rules []*rule) {
	p.rules, p.byEvent, p.allowed = nil, make(map[string][]*rule), make(map[string]string)
	p.reads = make(map[string]bool)
	for _, r := range rules {
		r := *r
		r.tally = new(tally)
		p.rules = append(p.rules, &r)
		p.byEvent[r.On] = append(p.byEvent[r.On], &r)
		p.reads[r.On] = p.reads[r.On] || r.looks.atJSON || r.edits != nil
		if _, ok := p.allowed[r.Server]; r.unless && !ok {
			p.allowed[r.Server] = r.ID
		}
	}
}

func compileRule(r Rule) (*rule, error) {
	wrong := func(key, format string, a ...any) *Fault {
		return &Fault{Of: r.ID, Key: key, Text: fmt.Sprintf(format, a...)}
	}
	f := findFamily(r.On)
	if f == nil {
		return nil, wrong("on", "%.64q: it is one of %s", r.On, familyNames())
	}
	switch r.Decision {
	case Allow, Ask, Block:
		if len(r.Remove)+len(r.Redact)+len(r.Set)+len(r.Match) > 0 {
			return nil, wrong("decision", "%.64q: what is removed, redacted or set goes with rewrite", r.Decision)
		}
	case Rewrite:
		if r.On != OnRequest && r.On != OnResponse && r.On != OnAsk {
			return nil, wrong("decision", "%.64q: %s has nothing to rewrite", r.Decision, r.On)
		}
	default:
		return nil, wrong("decision", "%.64q: it is allow, ask, block or rewrite", r.Decision)
	}
	edits, fault := compileEdits(r)
	if fault != nil {
		return nil, fault
	}
	if r.Decision == Rewrite && len(edits) == 0 {
		return nil, wrong("decision", "%.64q: say what is to be removed, redacted or set", r.Decision)
	}
	switch n := r.Priority; {
	case n < PriorityLowest || n > PriorityHighest || n == PriorityLists:
		return nil, wrong("priority", "%d: it is from %d to -1 of corp's rules and from 1 to %d of all", n, PriorityLowest, PriorityHighest)
	case n < PriorityLists && r.Layer != LayerCorp:
		return nil, wrong("priority", "%d: those below 0 are for corp's rules: write 1 to %d", n, PriorityHighest)
	}
	if r.If == "" {
		return &rule{Rule: r, edits: edits}, nil
	}
	cond, looks, err := f.compile(r.If)
	if errors.As(err, &fault) {
		fault.Of = r.ID
	}
	return &rule{Rule: r, cond: cond, looks: looks, edits: edits}, err
}

// tryRules returns what the first rule decides that holds for e. One that
// rewrites decides nothing: those after it have what it made of e. What is only
// observed lets e pass, so that those after it that count all the same are tried.
func (p *Policy) tryRules(e *Event) *Decision {
	e.seen.values, e.rewritten = nil, nil // it may have changed since
	var observed *Decision
	for _, r := range p.byEvent[e.On] {
		if r.Server != "" && r.Server != e.Server || observed != nil && !r.always() {
			continue
		}
		d := p.tryRule(e, r)
		switch {
		case d == nil:
		case observed != nil && d.Action == Allow:
			return observed
		case !p.observes(d):
			return d
		case observed == nil:
			observed = d
		}
	}
	return observed
}

// always says whether the rule counts where the policy only observes, too.
func (r *rule) always() bool {
	return r.Decision == Rewrite || r.firm || r.Layer == LayerCorp
}

// tryRule returns what a rule decides about e, nil if nothing. A condition that
// cannot be found out blocks.
func (p *Policy) tryRule(e *Event, r *rule) *Decision {
	if e.Listing && r.looks.atCalls { // it may hold of one call and not of another
		if r.Decision == Block || r.Decision == Rewrite {
			return nil
		}
		return &Decision{Action: Allow, Rule: r.ID, Layer: r.Layer}
	}
	holds, reason, err := r.holds(e)
	if holds || err != nil {
		r.tally.count(e)
	}
	switch {
	case err != nil:
		return &Decision{Action: Block, Rule: r.ID, Layer: r.Layer, Reason: fmt.Sprintf("the condition of the rule cannot be found out: %v", err)}
	case holds && r.Decision == Rewrite:
		return p.rewrite(e, r)
	case holds:
		return &Decision{Action: r.Decision, Rule: r.ID, Layer: r.Layer, Reason: reason, Code: r.code, firm: r.firm}
	}
	return nil
}

// Has says whether there is a rule of that name.
func (p *Policy) Has(id string) bool {
	return slices.ContainsFunc(p.rules, func(r *rule) bool { return r.ID == id })
}

// hasRules says whether there are rules for events of that kind.
func (p *Policy) hasRules(on string) bool { return len(p.byEvent[on]) > 0 }

// holds says whether the rule's condition holds for e, and why it says what it
// says.
func (r *rule) holds(e *Event) (holds bool, reason string, err error) {
	switch {
	case r.match != nil:
		reason := r.match(e)
		return reason != "", reason, nil
	case r.cond == nil:
		return true, r.reason(), nil
	}
	holds, err = r.cond.eval(e)
	return holds, r.reason(), err
}

func (r *rule) reason() string {
	if r.Decision == Allow {
		return r.Reason
	}
	return cmp.Or(r.Reason, "the rule says so")
}

// text returns what of the rule goes on after its name and decision.
func (r *rule) text() string {
	text := ""
	if r.unless {
		text = " unless"
	}
	for _, t := range r.list {
		text += " " + fs.QuoteLine(t)
	}
	if r.If != "" {
		text += " if " + fs.QuoteLine(r.If)
	}
	for _, path := range r.Remove {
		text += " remove " + fs.QuoteLine(path)
	}
	for _, path := range r.Redact {
		text += " redact " + fs.QuoteLine(path)
	}
	if r.Match != "" {
		text += " match " + fs.QuoteLine(r.Match)
	}
	for _, path := range slices.Sorted(maps.Keys(r.Set)) {
		value, _ := rawjson.Encode(r.Set[path])
		text += " set " + fs.QuoteLine(path) + " " + fs.QuoteLine(string(value))
	}
	return text
}
