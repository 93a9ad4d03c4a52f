package asks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hutch/fs"
)

func open(t *testing.T, path string) *Table {
	t.Helper()
	table, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// ask asks, and returns the question that waits and what comes of it.
func ask(t *testing.T, ctx context.Context, table *Table, q Question) (*Ask, <-chan Answer) {
	t.Helper()
	told, came := make(chan *Ask, 1), make(chan Answer, 1)
	if q.Text == nil {
		q.Text = []byte(`{"vm":"dev"}`)
	}
	if q.Limit == 0 {
		q.Limit = time.Hour
	}
	go func() { came <- table.Ask(ctx, q, func(a *Ask) { told <- a }) }()
	select {
	case a := <-told:
		return a, came
	case got := <-came:
		came <- got
		return nil, came
	}
}

// Of two answers the first counts, and the second is told who gave it.
func TestAnswers(t *testing.T) {
	table := open(t, filepath.Join(t.TempDir(), "asks"))
	for _, tt := range []struct {
		text string
		want Answer
	}{
		{"allow", Answer{true, "allow", "", "ann"}},
		{" allow ", Answer{true, "allow", "", "ann"}},
		{"deny", Answer{false, "deny", "", "ann"}},
		{"deny not on a  Friday", Answer{false, "deny", "not on a  Friday", "ann"}},
	} {
		a, came := ask(t, t.Context(), table, Question{})
		if err := table.Answer(t.Context(), a.ID, "ann", tt.text); err != nil {
			t.Fatal(err)
		}
		if got := <-came; got != tt.want {
			t.Errorf("%q: %+v", tt.text, got)
		}
		err := table.Answer(t.Context(), a.ID, "bob", "deny")
		if want := fmt.Sprintf("ask %d: ann answered %s", a.ID, tt.want.Word); !fs.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), want) {
			t.Errorf("second answer: %v", err)
		}
	}
	a, _ := ask(t, t.Context(), table, Question{})
	for _, text := range []string{"", "yes", "allow it", "allow always maybe", "denied"} {
		if err := table.Answer(t.Context(), a.ID, "ann", text); !fs.Is(err, fs.ErrInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := table.Find(a.ID); err != nil {
		t.Errorf("a bad answer ended the question: %v", err)
	}
	if err := table.Answer(t.Context(), 99, "ann", "allow"); !fs.Is(err, fs.ErrNotExist) {
		t.Errorf("no such question: %v", err)
	}
}

// An answer for always that cannot be leaves the question waiting, and nobody
// else answers while it is tried.
func TestAlways(t *testing.T) {
	table := open(t, filepath.Join(t.TempDir(), "asks"))
	trying, locked := make(chan bool), errors.New("corp locked it")
	a, came := ask(t, t.Context(), table, Question{Always: func(_ context.Context, who string, exact bool) error {
		trying <- exact
		if <-trying {
			return locked
		}
		return nil
	}})
	answered := make(chan error)
	answer := func(text string) { answered <- table.Answer(t.Context(), a.ID, "ann", text) }
	go answer("allow always exact")
	if exact := <-trying; !exact {
		t.Error("not exact")
	}
	if err := table.Answer(t.Context(), a.ID, "bob", "deny"); !fs.Is(err, fs.ErrBusy) || !strings.Contains(err.Error(), "ann is answering") {
		t.Errorf("at the same time: %v", err)
	}
	trying <- true
	if err := <-answered; err != locked {
		t.Errorf("locked: %v", err)
	}
	go answer("allow  always")
	if exact := <-trying; exact {
		t.Error("exact")
	}
	trying <- false
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	if got := <-came; !got.Allow || got.Word != "allow always" {
		t.Errorf("%+v", got)
	}
}

func TestUnanswered(t *testing.T) {
	table := open(t, filepath.Join(t.TempDir(), "asks"))
	late, came := ask(t, t.Context(), table, Question{Limit: time.Millisecond})
	if got := <-came; got.Allow || got.Word != TimedOut || got.Reason != "nobody answered within 1ms" {
		t.Errorf("late: %+v", got)
	}
	if _, err := table.Find(late.ID); !fs.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "timed out") {
		t.Errorf("late: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	_, came = ask(t, ctx, table, Question{})
	cancel(errors.New("connection lost"))
	if got := <-came; got.Allow || got.Word != GivenUp || got.Reason != "connection lost" {
		t.Errorf("gone: %+v", got)
	}
	if len(table.Waiting()) > 0 {
		t.Error("some wait still")
	}
}

// A guest cannot have more questions wait than a few, nor long ones.
func TestLimits(t *testing.T) {
	table := open(t, filepath.Join(t.TempDir(), "asks"))
	for vm := range uint64(MaxAll / MaxOfVM) {
		for range MaxOfVM {
			if a, _ := ask(t, t.Context(), table, Question{Of: vm}); a == nil {
				t.Fatal("refused")
			}
		}
		a, came := ask(t, t.Context(), table, Question{Of: vm})
		if got := <-came; a != nil || got.Allow || got.Word != TooMany || !strings.Contains(got.Reason, "32 questions of this VM") {
			t.Errorf("%+v", got)
		}
	}
	_, came := ask(t, t.Context(), table, Question{Of: 1000})
	if got := <-came; got.Word != TooMany || !strings.Contains(got.Reason, "256 questions wait") {
		t.Errorf("%+v", got)
	}
	_, came = ask(t, t.Context(), table, Question{Of: 1000, Text: make([]byte, MaxText+1)})
	if got := <-came; got.Word != TooMany || !strings.Contains(got.Reason, "cannot be shown") {
		t.Errorf("%+v", got)
	}
}

// Numbers are not used again, not by the next service either.
func TestNumbers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "asks")
	first, _ := ask(t, t.Context(), open(t, path), Question{})
	second, _ := ask(t, t.Context(), open(t, path), Question{})
	if first.ID != 1 || second.ID != 2 {
		t.Errorf("numbers %d and %d", first.ID, second.ID)
	}
	if err := os.WriteFile(path, []byte("2x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, nil); err == nil || !strings.HasSuffix(err.Error(), `asks has "2x\n" in place of the number of the last ask: write one there that none had, or remove it`) {
		t.Error(err)
	}
}

// Each reader of next sees what waits and what comes, one that began late and
// one that hangs.
func TestNext(t *testing.T) {
	table := open(t, filepath.Join(t.TempDir(), "asks"))
	hangs := table.Next(false)
	read := func(h fs.Handle, off *int64) string {
		t.Helper()
		p := make([]byte, 512)
		n, err := h.ReadAt(t.Context(), p, *off)
		if err != nil {
			t.Fatal(err)
		}
		*off += int64(n)
		return string(p[:n])
	}
	var hung, at int64
	a, _ := ask(t, t.Context(), table, Question{Text: []byte(`{"vm":"a"}`)})
	if got := read(hangs, &hung); !strings.HasPrefix(got, `{"id":1,"timestamp":"`) || !strings.HasSuffix(got, `,"vm":"a"}`+"\n") {
		t.Errorf("got %q", got)
	}
	for range 5 {
		b, _ := ask(t, t.Context(), table, Question{})
		if err := table.Answer(t.Context(), b.ID, "ann", "allow"); err != nil {
			t.Fatal(err)
		}
	}
	ask(t, t.Context(), table, Question{Text: []byte(`{}`)})
	reads := table.Next(true)
	if got := read(reads, &at); got != string(a.Line()) {
		t.Errorf("got %q", got)
	}
	small := make([]byte, 3) // in pieces, and one again
	for _, off := range []int64{at, at + 3, at + 3} {
		if n, err := reads.ReadAt(t.Context(), small, off); n != 3 || err != nil {
			t.Errorf("%d %v", n, err)
		}
	}
	if string(small) != `d":` {
		t.Errorf("got %q", small)
	}
	at += 3
	read(reads, &at)
	if _, err := reads.ReadAt(t.Context(), small, at); !fs.Is(err, fs.ErrAgain) {
		t.Errorf("nothing more: %v", err)
	}
	if got := read(hangs, &hung); !strings.HasPrefix(got, `{"id":7,`) {
		t.Errorf("after it hung: %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := hangs.ReadAt(ctx, small, hung); err != context.Canceled {
		t.Errorf("interrupted: %v", err)
	}
}
