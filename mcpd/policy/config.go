package policy

import (
	"fmt"
	"time"

	"hutch/aggd/guard"
)

// A Config is what the layers of a profile say of decisions.
type Config struct {
	Default      string        // what holds where nothing else decides: Allow, Ask or Block; "": Allow
	Mode         string        // Enforce or Observe; "": Enforce
	AskTime      time.Duration // how long a question waits for an answer; 0: AskTime
	Sealed       Sealed
	Deny         []string // tools, and patterns of such
	DenyLayer    string   // whose that list is
	Capabilities []Capability
	Cedar        Cedar
	Commands     map[string][]string // that cmd.run may run, each with what its first argument may be (none: any); nil: no list of such
	Rules        []Rule
	Lists        []List
	Hosts        guard.Hosts // that the proxy lets requests to, before a Policy is asked
}

// AskTime is how long a question waits for an answer, if nothing else is said.
const AskTime = 5 * time.Minute

// Sealed says what the requests of a guest have to come in. The endpoint sees to
// it, before a Policy is asked.
type Sealed struct {
	Required bool          // signed envelopes
	Life     time.Duration // of the tokens for them; 0: an hour
}

// The priorities of rules. Lower ones are tried first.
const (
	PriorityLowest  = -1000 // those below 0 are LayerCorp's
	PriorityLists   = 0     // rules that are made of a server's lists of tools
	PriorityUsual   = 100   // of rules that do not say theirs
	PriorityHighest = 999
)

// LayerCorp is the layer of a profile whose rules go before all others.
const LayerCorp = "corp"

// A Rule decides the events for which its condition holds.
type Rule struct {
	ID       string // where in the profile it stands: security.rules.FAMILY.NAME
	Layer    string // whose it is
	On       string // the event
	If       string // CEL; "": always
	Decision string // Allow, Ask, Block or Rewrite
	Priority int
	Reason   string
	Server   string // the only one whose events it decides; "": all

	// Of those that Rewrite: what is done, in this order, to values at paths.
	Remove  []string
	Redact  []string
	Match   string         // a regular expression: only what it finds in a text is redacted; "": the whole value
	Set     map[string]any // as JSON has them
	Answers string         // ID of the ask rule that this one answers; it is tried just before that. "": tried by Priority
}

// A List holds the lists of one server. Names are the tools' own; "*" is every
// tool, and a * at the end, after the border of a segment, every tool that goes
// on from there.
type List struct {
	Server  string
	Layer   string
	Allowed []string // nil: all
	Blocked []string
}

// A Fault is what is wrong with a Config.
type Fault struct {
	Of   string // the ID of the rule, or the name of the key
	Key  string // the key of it, "": all of it
	Line int    // of the key's text, from 0 on
	Text string
}

func (f *Fault) Error() string { return fmt.Sprintf("%s: %s", f.Of, f.Text) }
