package gateway

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"hutch/mcpd"
	"hutch/mcpd/ledger"
)

// A guest can do what is told as often as it likes: make bad connections,
// send broken frames, ask for what it may not have. The first of a kind is
// told at once, and how often the same came again at the end of the minute.
// Beyond repeatTexts different texts only their number is told.
const (
	repeatEvery = time.Minute
	repeatTexts = 16 // of a kind, in a minute
)

// notRecorded is the kind of what could not be written to the ledger: it is in
// the service's log only.
const notRecorded = "not recorded"

// Alert tells of a security event, and of the rule that it is by, if any.
func (g *Gateway) Alert(kind, rule, text string) {
	g.Alerted(mcpd.Alert{Kind: kind, Rule: rule, Text: text})
}

// Alerted tells of a security event.
func (g *Gateway) Alerted(a mcpd.Alert) {
	g.report(subject{ledger.Security, a.Kind, a.Rule}, a.Text, a.Trace, 1)
}

// Trouble tells that something is amiss that a guest can bring about: a process
// died that serves it, or both sides write what one has locked.
func (g *Gateway) Trouble(kind, text string) {
	if kind == mcpd.AggregatorDied {
		g.LastErr.Say(text)
	}
	g.report(subject{table: ledger.VMs, kind: kind}, text, "", repeatTexts)
}

// report tells of an event, n times at most in a minute.
func (g *Gateway) report(s subject, text, trace string, n int) {
	if g.repeats.allow(s, text, n) {
		g.tellOf(s, text, trace)
	}
}

func (g *Gateway) tellOf(s subject, text, trace string) {
	e := g.NewEvent(s.kind, text)
	e.Rule, e.Trace = s.rule, trace
	g.Tell(s.table, e)
}

// repeated tells how often something came again.
func (g *Gateway) repeated(s subject, text string, times int) {
	if text == "" {
		text = fmt.Sprintf("%d more, of other texts", times)
	} else {
		text = fmt.Sprintf("%s (%d times more)", text, times)
	}
	if s.table == "" {
		g.service.Log.Warn(s.kind, g.cfg.Kind, g.cfg.Name(), "text", text)
		return
	}
	g.tellOf(s, text, "") // they may be of many traces
}

// A subject is a kind of events, by a rule or none, and the table of the ledger
// that they are in; "" is none.
type subject struct{ table, kind, rule string }

// A repeatLimiter lets the first events of a kind through, and counts those
// that come again. The timer runs only while something was told within the last
// minute.
type repeatLimiter struct {
	tell  func(s subject, text string, times int)
	begin func(func()) bool // does what the timer is for on a goroutine that is waited for

	mu     sync.Mutex                     // guards what follows
	seen   map[subject]map[string]*counts // by text, which is "" for those of a subject that has too many
	timer  *time.Timer                    // nil: nothing is seen
	closed bool
}

// counts are how often something was told at once, and how often it came since.
type counts struct{ told, more int }

// allow notes that something happened, and says whether it is to be told at
// once, as the first n of the same are in a minute.
func (r *repeatLimiter) allow(s subject, text string, n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	if r.seen[s][text] == nil && len(r.seen[s]) >= repeatTexts {
		text = ""
	}
	c := r.counts(s, text)
	if text != "" && c.told < n {
		c.told++
		return true
	}
	c.more++
	return false
}

// counts returns what is counted of a text, from now on if nothing was.
func (r *repeatLimiter) counts(s subject, text string) *counts {
	if r.timer == nil {
		r.timer = time.AfterFunc(repeatEvery, r.minute)
		r.seen = make(map[subject]map[string]*counts)
	}
	if r.seen[s] == nil {
		r.seen[s] = make(map[string]*counts)
	}
	if r.seen[s][text] == nil {
		r.seen[s][text] = &counts{}
	}
	return r.seen[s][text]
}

// minute tells of what came again. That stays among what is counted; what did
// not is told at once when it comes next.
func (r *repeatLimiter) minute() { r.begin(func() { r.end(false) }) }

// flush tells of what came again, and forgets it.
func (r *repeatLimiter) flush() { r.end(true) }

func (r *repeatLimiter) end(all bool) {
	r.mu.Lock()
	was := r.seen
	if r.timer != nil {
		r.timer.Stop()
	}
	r.seen, r.timer = nil, nil
	for s, texts := range was {
		for text, c := range texts {
			if c.more > 0 && !all && !r.closed {
				r.counts(s, text).told = c.told
			}
		}
	}
	r.mu.Unlock()
	for s, texts := range was {
		for _, text := range slices.Sorted(maps.Keys(texts)) {
			if n := texts[text].more; n > 0 {
				r.tell(s, text, n)
			}
		}
	}
}

// close tells of what is left. Nothing is told after it.
func (r *repeatLimiter) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.flush()
}
