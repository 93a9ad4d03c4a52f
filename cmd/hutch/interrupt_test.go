package main

import (
	"testing"
	"time"
)

// TestInterrupts has keys typed and texts printed, 100 ms after each other.
func TestInterrupts(t *testing.T) {
	const c = "key \x03"
	for _, row := range []struct {
		what  string
		steps []string
		end   int // the step that ends the session; 0: none does
	}{
		{"three", []string{c, "", c, "", c}, 5},
		{"held down", []string{c, c, c, c, c, c}, 5},
		{"echoed", []string{c, "^C", c, "^C\r\n", c}, 5},
		{"answered", []string{c, "^C\r\n# ", c, "^C\r\n# ", c, "^C\r\n# ", c, "", c}, 0},
		{"not all answered", []string{c, "tick\r\n", "", c, "", "", c, "", c}, 9},
		{"other keys", []string{c, "", c, "key x", c, "", c}, 0},
		{"at once", []string{"key \x03\x03\x03"}, 0},
	} {
		now, ended := time.Unix(0, 0), 0
		step := 0
		i := interrupts{now: func() time.Time { return now }, end: func() { ended = step }}
		for _, s := range row.steps {
			step++
			now = now.Add(100 * time.Millisecond)
			if len(s) > 4 && s[:4] == "key " {
				i.typed([]byte(s[4:]))
			} else {
				i.printed([]byte(s))
			}
		}
		if ended != row.end {
			t.Errorf("%s: ended at step %d, want %d", row.what, ended, row.end)
		}
	}
}
