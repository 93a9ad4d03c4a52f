package main

import (
	"testing"
	"testing/synctest"
)

// Lines that come while no question is shown answer none, and their end ends it.
func TestAwaitQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		coming, typed := make(chan uint64), make(chan string)
		broken := make(chan error)
		go func() {
			typed <- "y"
			coming <- 3 // was shown
			typed <- "more"
			go func() { typed <- "y" }()
			synctest.Wait()
			coming <- 4
		}()
		if over, err := awaitQuestion(t.Context(), 3, coming, broken, typed); over || err != nil {
			t.Errorf("question 4: over %v, %v", over, err)
		}
		close(typed)
		if over, err := awaitQuestion(t.Context(), 4, coming, broken, typed); !over || err != nil {
			t.Errorf("the end: over %v, %v", over, err)
		}
	})
}

func TestTypedAnswer(t *testing.T) {
	for line, want := range map[string]string{
		"y": "allow", "YES": "allow", "allow": "allow", "n": "deny", "No": "deny", "a": "allow always", "e": "allow always exact",
		"not now": "deny not now", "n not now": "deny not now", "deny  it is late": "deny it is late", "yes but": "deny yes but", "no thanks": "deny no thanks",
	} {
		if got := typedAnswer(line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
