package fs

import (
	"strings"
	"testing"
)

func TestShorten(t *testing.T) {
	long := strings.Repeat("x", 100)
	for text, want := range map[string]string{
		"":                            "",
		long:                          long,
		long + "y":                    long + "…",
		long[1:] + "é":                long[1:] + "…",
		long[:98] + "é" + long:        long[:98] + "é…",
		strings.Repeat("\x80", 1<<20): strings.Repeat("\x80", 96) + "…",
	} {
		if got := Shorten(text); got != want {
			t.Errorf("%.110q: %q, want %q", text, got, want)
		}
	}
}
