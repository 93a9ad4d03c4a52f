package runconfig

import (
	"slices"
	"strings"
	"testing"

	"hutch/fs"
)

// documented are the transitions that ToolHive's docs/arch/08-workloads-lifecycle.md
// draws, and where nothing is there yet or any more.
const documented = `
-> starting
starting -> running
starting -> error
running -> stopping
running -> unhealthy
running -> unauthenticated
running -> auth_retrying
running -> stopped
stopping -> stopped
stopped -> starting
stopped -> removing
unauthenticated -> starting
unauthenticated -> removing
auth_retrying -> running
auth_retrying -> unauthenticated
removing ->
error -> starting
error -> removing
`

func TestTransitions(t *testing.T) {
	var theirs []string
	for i, tr := range Transitions {
		if !tr.Ours {
			theirs = append(theirs, strings.TrimSpace(string(tr.From)+" -> "+string(tr.To)))
		}
		for _, o := range Transitions[:i] {
			if o.From == tr.From && o.On == tr.On {
				t.Errorf("%s in %q is there twice", tr.On, tr.From)
			}
		}
		for _, s := range []State{tr.From, tr.To} {
			if s != Gone && !slices.Contains(States, s) {
				t.Errorf("%q is no state", s)
			}
		}
		if to, err := tr.From.Next(tr.On); to != tr.To || err != nil {
			t.Errorf("%s in %q: %q, %v", tr.On, tr.From, to, err)
		}
	}
	want := strings.Split(strings.TrimSpace(documented), "\n")
	slices.Sort(want)
	slices.Sort(theirs)
	if !slices.Equal(theirs, want) {
		t.Errorf("documented are\n%s\nwant\n%s", strings.Join(theirs, "\n"), strings.Join(want, "\n"))
	}
	if len(States) != 12 {
		t.Errorf("%d states", len(States))
	}
}

// TestReached: every state but unknown can be come to from nothing, and from every
// one there is a way to nothing.
func TestReached(t *testing.T) {
	reach := func(from State) map[State]bool {
		seen := map[State]bool{from: true}
		for again := true; again; {
			again = false
			for _, tr := range Transitions {
				if seen[tr.From] && !seen[tr.To] {
					seen[tr.To], again = true, true
				}
			}
		}
		return seen
	}
	for _, s := range States {
		if got := reach(Gone)[s]; got != (s != Unknown) {
			t.Errorf("%s is come to: %t", s, got)
		}
		if !reach(s)[Gone] {
			t.Errorf("%s never ends", s)
		}
	}
}

func TestNextRefused(t *testing.T) {
	for _, c := range []struct {
		in   State
		on   Event
		want string
	}{
		{Running, Start, "file in use: a server that is running cannot be started: it can be stopped"},
		{Running, Remove, "file in use: a server that is running cannot be removed: it can be stopped"},
		{Stopped, Stop, "file in use: a server that is stopped cannot be stopped: it can be started or be removed"},
		{Removing, Start, "file in use: a server that is removing cannot be started: wait until it is something else"},
		{Gone, Stop, "file in use: a server that is not there cannot be stopped: it can be started"},
	} {
		s, err := c.in.Next(c.on)
		if s != c.in || !fs.Is(err, fs.ErrBusy) || err.Error() != c.want {
			t.Errorf("%s in %q: %q, %v, want %s", c.on, c.in, s, err, c.want)
		}
	}
	if !Unhealthy.Live() || Stopping.Live() {
		t.Error("which states are live")
	}
}
