package policy

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"hutch/fs"
)

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

func (t *tally) text() string {
	hits := t.hits.Load()
	if hits == 0 {
		return ""
	}
	return fmt.Sprintf(" hits %d last %s", hits, time.Unix(0, t.last.Load()).UTC().Format(time.RFC3339))
}

// Text returns the policy as lines for people to read, in the order in which it
// is tried: the rule, what it does, its condition, what it rewrites and, behind a
// #, its layer, its priority, how often it decided and when last, and what it is
// about.
func (p *Policy) Text() string {
	var b strings.Builder
	p.writeChecks(&b)
	for _, r := range p.rules {
		writeRow(&b, fs.QuoteLine(r.ID)+" "+r.Decision+r.text(), r.note())
	}
	writeRow(&b, RuleDefault+" "+p.byDefault.Action, p.defaultTally.text())
	return b.String()
}

func writeRow(b *strings.Builder, row, note string) {
	if note != "" {
		row += " #" + note
	}
	b.WriteString(row + "\n")
}

// note is what there is to tell of a rule beside what it says. Those that are
// made of lists are about what their names say.
func (r *rule) note() string {
	note := ""
	if r.Layer != "" {
		note += " layer " + r.Layer
	}
	if r.Priority != PriorityLists {
		note += fmt.Sprintf(" priority %d", r.Priority)
	}
	note += r.tally.text()
	if r.match == nil {
		note += " on " + r.On
	}
	if r.match == nil && r.Server != "" {
		note += " server " + r.Server
	}
	if r.Reason != "" {
		note += " reason " + fs.QuoteLine(r.Reason)
	}
	return note
}
