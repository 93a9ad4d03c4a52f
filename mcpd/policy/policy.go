// Package policy decides what a guest may do: the calls of tools, what comes of
// them, what servers ask of the guest, files, commands and requests to the
// proxy. A Policy is compiled from the layers of a profile and does not change;
// whoever reloads a profile compiles another.
package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"hutch/aggd/guard"
)

// What a Decision says to do.
const (
	Allow   = "allow"
	Ask     = "ask" // a person
	Block   = "block"
	Rewrite = "rewrite" // go on with what the Decision has in the place of what was asked
	Observe = "observe" // only in records: it passed because the mode is observe; enforced, it would be refused or asked
)

// A Decision tells what to do about an event, by which rule, and why.
type Decision struct {
	Action string
	Rule   string
	Layer  string // whose rule it is
	Reason string // empty where nothing needs to be said
	Would  string // the Action if the policy did not only observe; "": the same

	Rewritten json.RawMessage // what is in the place of the arguments, or of the result; nil: they stay

	firm       bool          // it holds where the policy only observes, too
	Code       *Code         // of what is blocked; nil where that is not
	RetryAfter time.Duration // 0: nobody knows, or asking again is no use
}

// A Policy decides events. Its methods may be called concurrently.
type Policy struct {
	denied          []denial
	denyLayer       string
	capabilities    []*capability // by name
	capabilityLayer string        // whose it is that other tools are refused
	rules           []*rule       // in the order in which they are tried
	byEvent         map[string][]*rule
	allowed         map[string]string   // by server, the rule that its list of allowed tools is
	reads           map[string]bool     // by event, whether rules look at the arguments or results
	cedar           *cedarSet           // nil: there are no policies
	runnable        map[string][]string // commands of cmd.run with their first arguments; nil: no list
	byDefault       Decision
	defaultTally    *tally
	askTime         time.Duration
	sealed          Sealed
	hosts           guard.Hosts // only Try looks: the proxy has looked where Decide is asked
	observe         bool        // refusals and questions, and have them pass
	now             func() time.Time
}

// A check is a row of the table of what an event has to pass. It returns nil
// if it has nothing against the event and does not decide it. Events that no
// check is about need not be asked about at all.
type check struct {
	name  string
	do    func(*Policy, *Event) *Decision
	about func(p *Policy, on string) bool // whether it may decide such events
}

// checks are made in this order. The first that blocks counts, else the first
// that decides. What none decides, the default does.
var checks = []check{
	{"size", (*Policy).trySize, (*Policy).hasForm},
	{"commands", (*Policy).tryCommands, (*Policy).hasCommands},
	{"deny", (*Policy).tryDeny, (*Policy).denies},
	{"capabilities", (*Policy).tryCapabilities, (*Policy).hasCapabilities},
	{"cedar", (*Policy).tryCedar, (*Policy).hasCedar},
	{"form", (*Policy).tryForm, (*Policy).hasForm},
	{"rules", (*Policy).tryRules, (*Policy).hasRules},
	{"rates", (*Policy).tryRates, (*Policy).hasCapabilities},
}

// New compiles a policy. Its error is a Fault.
func New(c Config) (*Policy, error) {
	p := &Policy{runnable: c.Commands, defaultTally: new(tally), byDefault: Decision{Action: Allow, Rule: RuleDefault}, askTime: c.AskTime, sealed: c.Sealed, hosts: c.Hosts, now: time.Now}
	switch c.Default {
	case "", Allow:
	case Ask, Block:
		p.byDefault.Action, p.byDefault.Reason = c.Default, "no rule allows it"
		if c.Default == Block {
			p.byDefault.Code = ToolNotAllowed
		}
	default:
		return nil, &Fault{Of: "security", Key: "default", Text: fmt.Sprintf("%.64q: it is allow, ask or block", c.Default)}
	}
	switch c.Mode {
	case "", Enforce:
	case Observe:
		p.observe = true
	default:
		return nil, &Fault{Of: "security", Key: "mode", Text: fmt.Sprintf("%.64q: it is enforce or observe", c.Mode)}
	}
	if p.askTime == 0 {
		p.askTime = AskTime
	}
	return p, cmp.Or(p.compileDeny(c.Deny, c.DenyLayer), p.compileCapabilities(c.Capabilities), p.compileCedar(c.Cedar), p.compileRules(c))
}

// Decide decides an event, in which it puts what rules have rewritten. It does not
// wait.
func (p *Policy) Decide(e *Event) Decision {
	e.rewritten = nil
	d := e.asRewritten(p.decide(e))
	if d.Action == Block && d.Code == nil {
		d.Code = ToolExplicitlyDenied
	}
	return d
}

func (p *Policy) decide(e *Event) Decision {
	var observed, decided *Decision
	for _, c := range checks {
		d := c.do(p, e)
		switch {
		case d == nil:
		case p.observes(d):
			observed = cmp.Or(observed, d)
		case d.Action == Block:
			return *d
		case decided == nil:
			decided = d
		}
	}
	switch {
	case observed != nil && (decided == nil || decided.Action == Allow):
		return observed.passed()
	case decided != nil:
		return *decided
	}
	d := p.fallback(e)
	if p.observes(&d) {
		return d.passed()
	}
	return d
}

// unasked are the requests that neither the default nor Cedar is about. They open
// and keep a session, and list what there is: without them a guest could not ask
// for what is allowed.
var unasked = map[string]bool{
	"initialize": true, "ping": true, "server/discover": true, "seal/attest": true, "smcp/attest": true, "logging/setLevel": true,
	"tasks/get": true, "tasks/result": true, "tasks/list": true, "tasks/cancel": true, "tasks/update": true, // of calls that were allowed
	"subscriptions/listen": true, // each resource in it is asked about as resources/subscribe
	"tools/list":           true, "prompts/list": true, "resources/list": true, "resources/templates/list": true,
}

// Unasked returns the requests without which a client cannot work, whatever it may call.
func Unasked() []string { return slices.Sorted(maps.Keys(unasked)) }

// fallback decides what no check does.
func (p *Policy) fallback(e *Event) Decision {
	switch e.On {
	case OnRequest, OnAsk:
		if unasked[e.Method] {
			return Decision{Action: Allow, Rule: RuleDefault}
		}
	case OnHTTP:
		return Decision{Action: Allow, Rule: RuleNetwork}
	default: // belongs to a request that was decided
		return Decision{Action: Allow, Rule: RuleDefault}
	}
	d := p.byDefault
	if list := p.listOf(e); list != "" && d.Action == Allow {
		d.Rule = list
	}
	p.defaultTally.count(e)
	return d
}

// About says whether events of that kind may be decided otherwise than by what
// holds where no check decides.
func (p *Policy) About(on string) bool {
	return slices.ContainsFunc(checks, func(c check) bool { return c.about(p, on) })
}

// Sealed returns what the requests of a guest have to come in.
func (p *Policy) Sealed() Sealed { return p.sealed }

// AskTime returns how long a question waits for an answer.
func (p *Policy) AskTime() time.Duration { return p.askTime }
