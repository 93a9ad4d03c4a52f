package vmcp

import (
	"errors"
	"strings"
	"testing"
	"time"

	"hutch/fs"
	"hutch/mcpd/composite"
)

// TestBreaker goes through the states of a circuit that opens after two failures, for
// ten seconds.
func TestBreaker(t *testing.T) {
	now := time.Unix(0, 0)
	bs := NewBreakers(Circuit{Enabled: true, Threshold: 2, Timeout: composite.Duration(10 * time.Second)})
	bs.now = func() time.Time { return now }
	for i, tt := range []struct {
		after time.Duration
		does  string // ok, fails; refused: is not made
		state string
	}{
		{0, "fails", "closed"},
		{0, "ok", "closed"},
		{0, "fails", "closed"},
		{0, "fails", "open"},
		{9 * time.Second, "refused", "open"},
		{time.Second, "fails", "open"},
		{9 * time.Second, "refused", "open"},
		{time.Second, "ok", "closed"},
		{0, "fails", "closed"},
		{0, "fails", "open"},
		{11 * time.Second, "", "half-open"},
	} {
		now = now.Add(tt.after)
		if tt.does != "" {
			done, err := bs.Begin("a")
			switch {
			case (err != nil) != (tt.does == "refused"):
				t.Fatalf("%d: %v, want it %s", i, err, tt.does)
			case err == nil:
				done(tt.does == "fails")
			case !errors.Is(err, fs.ErrBusy) || !strings.Contains(err.Error(), "try again in 1s"):
				t.Errorf("%d: %v", i, err)
			}
		}
		if got := bs.State("a"); got != tt.state {
			t.Errorf("%d: %s, want %s", i, got, tt.state)
		}
		if bs.State("b") != "closed" {
			t.Error("the circuit of another server counts")
		}
	}
}

// Half open, one request is let through at a time, and one that began before the
// circuit opened does not close the way for it.
func TestBreakerHalfOpen(t *testing.T) {
	now := time.Unix(0, 0)
	bs := NewBreakers(Circuit{Enabled: true, Threshold: 1, Timeout: composite.Duration(time.Second)})
	bs.now = func() time.Time { return now }
	begin := func() func(bool) {
		t.Helper()
		done, err := bs.Begin("a")
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	late, failing, first := begin(), begin(), begin()
	first(true)
	now = now.Add(time.Second)
	probe := begin()
	failing(true)
	if _, err := bs.Begin("a"); err == nil {
		t.Error("a second request is let through")
	}
	probe(true)
	if bs.State("a") != "open" {
		t.Errorf("after a probe that failed: %s", bs.State("a"))
	}
	late(false)
	if bs.State("a") != "closed" {
		t.Errorf("after an answer: %s", bs.State("a"))
	}
	bs.Set(Circuit{})
	for range 5 {
		begin()(true)
	}
	if bs.State("a") != "closed" {
		t.Error("it opens although it is not enabled")
	}
}
