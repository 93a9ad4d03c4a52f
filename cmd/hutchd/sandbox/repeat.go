package sandbox

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"hutch/mcpd"
	"hutch/mcpd/ledger"
)

// A guest can do what is told as often as it likes: make bad connections,
// send broken frames, ask for what it may not have. The first of a kind is
// told at once, and how often the same came again at the end of the minute.
// Of more texts than a few there is but a number.
const (
	repeatEvery = time.Minute
	repeatTexts = 16 // of a kind, in a minute
)

// notRecorded is the kind of what could not be written to the ledger: it is in
// the service's log only.
const notRecorded = "not recorded"

// alert tells of a security event.
func (v *Sandbox) alert(kind, text string) {
	if v.repeats.allow(subject{ledger.Security, kind}, text, 1) {
		v.tell(ledger.Security, Event{Time: time.Now(), VM: v.Name(), Kind: kind, Text: text})
	}
}

// trouble tells that something is amiss that a guest can bring about: a process
// died that serves the VM, or both sides write what one has locked.
func (v *Sandbox) trouble(kind, text string) {
	if kind == mcpd.AggregatorDied {
		v.LastErr.Say(text)
	}
	if v.repeats.allow(subject{ledger.VMs, kind}, text, repeatTexts) {
		v.tell(ledger.VMs, Event{Time: time.Now(), VM: v.Name(), Kind: kind, Text: text})
	}
}

// repeated tells how often something came again.
func (v *Sandbox) repeated(s subject, text string, times int) {
	if text == "" {
		text = fmt.Sprintf("%d more, of other texts", times)
	} else {
		text = fmt.Sprintf("%s (%d times more)", text, times)
	}
	if s.table == "" {
		v.service.log.Warn(s.kind, "vm", v.Name(), "text", text)
		return
	}
	v.tell(s.table, Event{Time: time.Now(), VM: v.Name(), Kind: s.kind, Text: text})
}

// A subject is a kind of events, and the table of the ledger that they are in;
// "" is none.
type subject struct{ table, kind string }

// An eventKey is what events that count as the same have in common; its text is
// "" for a subject that has too many texts.
type eventKey struct {
	subject
	text string
}

func (h eventKey) compare(o eventKey) int {
	return cmp.Or(strings.Compare(h.table+h.kind, o.table+o.kind), strings.Compare(h.text, o.text))
}

// A repeatLimiter lets the first events of a kind through, and counts those
// that come again. The timer runs only while something was told within the last
// minute.
type repeatLimiter struct {
	tell  func(s subject, text string, times int)
	begin func(func()) bool // does what the timer is for on a goroutine that is waited for

	mu     sync.Mutex // guards what follows
	seen   map[eventKey]*counts
	timer  *time.Timer
	closed bool
}

// counts are how often something was told at once, and how often it came since.
type counts struct{ told, more int }

// allow notes that something happened, and says whether it is to be told at
// once, as the first n of the same are in a minute.
func (r *repeatLimiter) allow(kind subject, text string, n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	h := eventKey{kind, text}
	if r.seen[h] == nil && r.texts(kind) >= repeatTexts {
		h.text = ""
	}
	if r.seen == nil {
		r.seen = make(map[eventKey]*counts)
	}
	if r.seen[h] == nil {
		r.seen[h] = &counts{}
	}
	if r.timer == nil {
		r.timer = time.AfterFunc(repeatEvery, r.minute)
	}
	c := r.seen[h]
	if h.text != "" && c.told < n {
		c.told++
		return true
	}
	c.more++
	return false
}

// texts returns how many texts of a kind there are.
func (r *repeatLimiter) texts(kind subject) (n int) {
	for h := range r.seen {
		if h.subject == kind {
			n++
		}
	}
	return n
}

// minute tells of what came again. That stays among what is counted; what did
// not is told at once when it comes next.
func (r *repeatLimiter) minute() { r.begin(func() { r.end(false) }) }

// flush tells of what came again, and forgets it.
func (r *repeatLimiter) flush() { r.end(true) }

func (r *repeatLimiter) end(all bool) {
	r.mu.Lock()
	was := r.seen
	r.seen = nil
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	again := make(map[eventKey]*counts)
	for h, c := range was {
		if c.more > 0 && !all && !r.closed {
			again[h] = &counts{told: c.told}
		}
	}
	if len(again) > 0 {
		r.seen, r.timer = again, time.AfterFunc(repeatEvery, r.minute)
	}
	r.mu.Unlock()
	for _, h := range slices.SortedFunc(maps.Keys(was), eventKey.compare) {
		if n := was[h].more; n > 0 {
			r.tell(h.subject, h.text, n)
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
