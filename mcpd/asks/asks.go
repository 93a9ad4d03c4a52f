// Package asks keeps the questions that wait for a person: may this call be
// made, over all VMs. Who asks waits in Table.Ask; who answers, as the file of
// the tree that it writes to, calls Table.Answer with the question's number.
package asks

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hutch/fs"
)

// How many questions wait at most, and how long the text of one is. A guest
// can ask as often as it likes: beyond this it is refused.
const (
	MaxOfVM = 32
	MaxAll  = 256
	MaxText = 128 << 10
)

// A Question is what a person is asked.
type Question struct {
	Ident uint64          // no other object's
	Of    uint64          // whose it is: a number that each VM has of its own
	Text  json.RawMessage // a JSON object that says what it is about
	Limit time.Duration   // how long it waits

	// Always makes the answer hold from now on: for the tool, or for just
	// these arguments of it. Nil: it cannot be had.
	Always func(ctx context.Context, who string, exact bool) error
}

// An Answer is what came of a Question.
type Answer struct {
	Allow  bool
	Word   string // allow, allow always, deny; or why nobody answered
	Reason string // of a deny, as who answered says; else ""
	Who    string // answered; "": nobody did
}

// What came of questions that nobody answered.
const (
	TimedOut = "timed out"
	TooMany  = "too many"
	GivenUp  = "given up"
)

// An Ask is a Question that waits.
type Ask struct {
	ID uint64
	Question
	Since time.Time

	by       string // who is answering it now; guarded by Table.mu
	answered chan Answer
}

// Line returns the question as one line of JSON, with its number and since
// when it waits.
func (a *Ask) Line() []byte {
	b := strconv.AppendUint([]byte(`{"id":`), a.ID, 10)
	b = a.Since.UTC().AppendFormat(append(b, `,"timestamp":"`...), fs.TimeFormat)
	b = append(b, '"')
	if more := a.Text[1:]; len(more) > 1 {
		b = append(b, ',')
	}
	return append(fs.EscapeLine(append(b, a.Text[1:]...)), '\n')
}

// A Table holds what waits.
type Table struct {
	path  string // of the file that has the last number
	ended func(id uint64)

	mu      sync.Mutex // guards what follows
	last    uint64
	waiting []*Ask        // in the order of their numbers
	over    []end         // the last ones that do not wait any more
	grown   chan struct{} // closed when there is a new one
}

// An end is what became of a question.
type end struct {
	id   uint64
	text string
}

// maxOver is how many questions are remembered that do not wait any more.
const maxOver = 256

// Open returns a table whose numbers go on after those that the file says
// were given. Numbers are not used again, not by the next service either:
// an answer to a question that is gone must not be for another. ended is told
// of each that does not wait any more; nil is fine.
func Open(path string, ended func(id uint64)) (*Table, error) {
	t := &Table{path: path, ended: ended, grown: make(chan struct{})}
	text, err := os.ReadFile(path)
	switch {
	case os.IsNotExist(err):
		return t, nil
	case err != nil:
		return nil, err
	}
	if t.last, err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err != nil {
		return nil, fmt.Errorf("%w: %s has %.40q in place of the number of the last ask: write one there that none had, or remove it", fs.ErrInvalid, path, text)
	}
	return t, nil
}

// Ask asks, and waits until somebody answers, the question's time is over, or
// ctx ends. told is called with the question when it waits.
func (t *Table) Ask(ctx context.Context, q Question, told func(*Ask)) Answer {
	a, why := t.add(q)
	if why != "" {
		return Answer{Word: TooMany, Reason: why}
	}
	if told != nil {
		told(a)
	}
	limit := time.NewTimer(q.Limit)
	defer limit.Stop()
	var late Answer
	select {
	case got := <-a.answered:
		return got
	case <-limit.C:
		late = Answer{Word: TimedOut, Reason: fmt.Sprintf("nobody answered within %v", q.Limit)}
	case <-ctx.Done():
		late = Answer{Word: GivenUp, Reason: context.Cause(ctx).Error()}
	}
	if !t.remove(a, late.Word) {
		return <-a.answered // in this moment
	}
	return late
}

// add puts a question among those that wait, or says why it cannot.
func (t *Table) add(q Question) (*Ask, string) {
	if len(q.Text) > MaxText {
		return nil, fmt.Sprintf("a question of %d bytes cannot be shown to a person: at most %d", len(q.Text), MaxText)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, a := range t.waiting {
		if a.Of == q.Of {
			n++
		}
	}
	switch {
	case n >= MaxOfVM:
		return nil, fmt.Sprintf("%d questions of this VM wait already", n)
	case len(t.waiting) >= MaxAll:
		return nil, fmt.Sprintf("%d questions wait already", len(t.waiting))
	}
	if err := fs.WriteFile(t.path, strconv.AppendUint(nil, t.last+1, 10), true); err != nil {
		return nil, "a question cannot be kept: " + fs.Text(err)
	}
	t.last++
	a := &Ask{ID: t.last, Question: q, Since: time.Now(), answered: make(chan Answer, 1)}
	t.waiting = append(t.waiting, a)
	close(t.grown)
	t.grown = make(chan struct{})
	return a, ""
}

// remove ends a question, unless somebody else has.
func (t *Table) remove(a *Ask, became string) bool {
	t.mu.Lock()
	at := slices.Index(t.waiting, a)
	if at >= 0 {
		t.waiting = slices.Delete(t.waiting, at, at+1)
		if t.over = append(t.over, end{a.ID, became}); len(t.over) > maxOver {
			t.over = slices.Delete(t.over, 0, 1)
		}
	}
	t.mu.Unlock()
	if at >= 0 && t.ended != nil {
		t.ended(a.ID)
	}
	return at >= 0
}

// Waiting returns the questions that wait, the oldest first.
func (t *Table) Waiting() []*Ask {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.waiting)
}

// Find returns the question of that number. The error of one that does not
// wait any more says what became of it.
func (t *Table) Find(id uint64) (*Ask, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.find(id)
}

func (t *Table) find(id uint64) (*Ask, error) {
	for _, a := range t.waiting {
		if a.ID == id {
			return a, nil
		}
	}
	for _, o := range t.over {
		if o.id == id {
			return nil, fmt.Errorf("%w: ask %d: %s", fs.ErrNotExist, id, o.text)
		}
	}
	return nil, fmt.Errorf("%w: ask %d", fs.ErrNotExist, id)
}

// next returns the oldest question after that number. If none waits it
// returns what is closed when there may be one.
func (t *Table) next(after uint64) (*Ask, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.waiting {
		if a.ID > after {
			return a, nil
		}
	}
	return nil, t.grown
}
