package redact

import (
	"bytes"
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	var out strings.Builder
	l := &Lines{To: &out, Redact: func(s string) string { return strings.ReplaceAll(s, "secret", "***") }}
	for _, piece := range []string{"a sec", "ret\nb", "\nc secr", "et"} {
		if n, err := l.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := out.String(); got != "a ***\nb\n" {
		t.Errorf("got %q", got)
	}
	l.Flush()
	if got := out.String(); got != "a ***\nb\nc ***" {
		t.Errorf("got %q", got)
	}
	l.Write(bytes.Repeat([]byte("x"), maxLine+1))
	if n := len(l.line); n != 0 {
		t.Errorf("%d bytes are kept", n)
	}
}
