package tree

import (
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
func (v *vm) alert(kind, text string) {
	if v.repeats.among(subject{ledger.Security, kind}, text, 1) {
		v.s.tell(v, ledger.Security, Event{Time: time.Now(), VM: v.Name(), Kind: kind, Text: text})
	}
}

// trouble tells that something is amiss that a guest can bring about: a process
// died that serves the VM, or both sides write what one has locked.
func (v *vm) trouble(kind, text string) {
	if kind == mcpd.AggregatorDied {
		v.err.say(text)
	}
	if v.repeats.among(subject{ledger.VMs, kind}, text, repeatTexts) {
		v.s.tell(v, ledger.VMs, Event{Time: time.Now(), VM: v.Name(), Kind: kind, Text: text})
	}
}

// repeated tells how often something came again.
func (v *vm) repeated(s subject, text string, times int) {
	if text == "" {
		text = fmt.Sprintf("%d more, of other texts", times)
	} else {
		text = fmt.Sprintf("%s (%d times more)", text, times)
	}
	if s.table == "" {
		v.s.log.Warn(s.kind, "vm", v.Name(), "text", text)
		return
	}
	v.s.tell(v, s.table, Event{Time: time.Now(), VM: v.Name(), Kind: s.kind, Text: text})
}

// A subject is a kind of events, and the table of the ledger that they are in;
// "" is none.
type subject struct{ table, kind string }

func (s subject) compare(t subject) int { return strings.Compare(s.table+s.kind, t.table+t.kind) }

// Repeats counts what comes again and again, by kind and text. The timer runs
// only while something was told within the last minute.
type repeats struct {
	tell  func(s subject, text string, times int)
	begin func(func()) bool // does what the timer is for on a goroutine that is waited for

	mu     sync.Mutex // guards what follows
	seen   map[subject]map[string]*seenText
	timer  *time.Timer
	closed bool
}

// A seenText is what was told of this text: how often at once, and how often
// it came since.
type seenText struct{ told, more int }

// among notes that something happened, and says whether it is to be told now:
// the same is n times in a minute.
func (r *repeats) among(kind subject, text string, n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	if r.seen == nil {
		r.seen = make(map[subject]map[string]*seenText)
	}
	if r.seen[kind] == nil {
		r.seen[kind] = make(map[string]*seenText)
	}
	texts := r.seen[kind]
	if texts[text] == nil && len(texts) >= repeatTexts {
		text = ""
	}
	if texts[text] == nil {
		texts[text] = &seenText{}
	}
	if r.timer == nil {
		r.timer = time.AfterFunc(repeatEvery, r.minute)
	}
	t := texts[text]
	if text != "" && t.told < n {
		t.told++
		return true
	}
	t.more++
	return false
}

// minute tells of what came again. That stays among what is counted; what did
// not is told at once when it comes next.
func (r *repeats) minute() { r.begin(func() { r.end(false) }) }

// flush tells of what came again, and forgets it.
func (r *repeats) flush() { r.end(true) }

func (r *repeats) end(all bool) {
	r.mu.Lock()
	was := r.seen
	r.seen = nil
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	again := make(map[subject]map[string]*seenText)
	for kind, texts := range was {
		for text, t := range texts {
			if t.more == 0 || all {
				continue
			}
			if again[kind] == nil {
				again[kind] = make(map[string]*seenText)
			}
			again[kind][text] = &seenText{told: t.told}
		}
	}
	if len(again) > 0 && !r.closed {
		r.seen, r.timer = again, time.AfterFunc(repeatEvery, r.minute)
	}
	r.mu.Unlock()
	for _, kind := range slices.SortedFunc(maps.Keys(was), subject.compare) {
		for _, text := range slices.Sorted(maps.Keys(was[kind])) {
			if n := was[kind][text].more; n > 0 {
				r.tell(kind, text, n)
			}
		}
	}
}

// close tells of what is left. Nothing is told after it.
func (r *repeats) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.flush()
}
