package policy

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"hutch/fs"
)

// A Row tells of a check in the order in which they are tried.
type Row struct {
	ID       string
	Layer    string // whose it is; "": nobody's
	On       string // the event; "": several
	Decision string
	Priority int
	Says     string // what it is about, in words of its kind
	Hits     uint64 // how often it decided
	Last     time.Time
}

// A tally counts how often something decided.
type tally struct {
	hits atomic.Uint64
	last atomic.Int64 // in nanoseconds; 0: never
}

// count counts that it decided e, if something comes of that.
func (t *tally) count(e *Event) {
	if e.Trial || e.Listing {
		return
	}
	t.hits.Add(1)
	t.last.Store(time.Now().UnixNano())
}

// tell tells a row of it.
func (t *tally) tell(r *Row) {
	r.Hits = t.hits.Load()
	if last := t.last.Load(); last != 0 {
		r.Last = time.Unix(0, last)
	}
}

// Rules returns what is tried, in that order.
func (p *Policy) Rules() []Row {
	var rows []Row
	for _, r := range p.rules {
		row := Row{ID: r.ID, Layer: r.Layer, On: r.On, Decision: r.Decision, Priority: r.Priority, Says: r.text()}
		r.tally.tell(&row)
		rows = append(rows, row)
	}
	last := Row{ID: RuleDefault, Decision: p.last.Action, Priority: Defaults}
	p.lastTally.tell(&last)
	return append(rows, last)
}

// Text returns the policy as lines for people to read, in the order in which it
// is tried: the rule, what it does, its condition and, behind a #, its layer,
// its priority, how often it decided and when last.
func (p *Policy) Text() string {
	var b strings.Builder
	p.writeChecks(&b)
	for _, r := range p.Rules() {
		fmt.Fprintf(&b, "%s %s%s%s\n", fs.QuoteLine(r.ID), r.Decision, r.Says, r.note())
	}
	return b.String()
}

// note is what there is to tell of a row beside what it says.
func (r *Row) note() string {
	note := ""
	if r.Layer != "" {
		note += " layer " + r.Layer
	}
	if r.Priority != OfLists && r.Priority != Defaults {
		note += fmt.Sprintf(" priority %d", r.Priority)
	}
	if r.Hits > 0 {
		note += fmt.Sprintf(" hits %d last %s", r.Hits, r.Last.UTC().Format(time.RFC3339))
	}
	if note == "" {
		return ""
	}
	return " #" + note
}
