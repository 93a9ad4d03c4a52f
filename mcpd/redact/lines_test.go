package redact

import (
	"bytes"
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	var out strings.Builder
	red := new(Redactor)
	red.Add("secret")
	l := &Lines{To: &out, Redactor: func() *Redactor { return red }}
	for _, piece := range []string{"a sec", "ret\nb", "\nc secr", "et"} {
		if n, err := l.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := out.String(); got != "a [redacted]\nb\n" {
		t.Errorf("got %q", got)
	}
	l.Flush()
	if got := out.String(); got != "a [redacted]\nb\nc [redacted]" {
		t.Errorf("got %q", got)
	}
}

// TestLongLine has a secret be across each place where a line could be cut, or where what
// is kept of it ends: nothing of it is passed on, and no more is kept than may be.
func TestLongLine(t *testing.T) {
	const secret = "topsecretvalue123456"
	red := new(Redactor)
	red.Add(secret)
	for _, at := range []int{4 << 10, maxLine, maxKept} {
		for before := at - len(secret); before <= at; before += 4 {
			var out strings.Builder
			l := &Lines{To: &out, Redactor: func() *Redactor { return red }}
			l.Write(append(bytes.Repeat([]byte("x"), before), secret[:7]...))
			l.Write([]byte(secret[7:] + strings.Repeat("y", 100)))
			if n := len(l.line); n > maxKept {
				t.Fatalf("%d bytes are kept", n)
			}
			l.Write([]byte("\nnext " + secret + "\nlast"))
			got := out.String()
			for part := range len(secret) - 4 {
				if strings.Contains(got, secret[part:part+4]) {
					t.Fatalf("%d bytes before it: %q is passed on", before, secret[part:part+4])
				}
			}
			if !strings.HasSuffix(got, "\nnext [redacted]\n") {
				t.Fatalf("%d bytes before it: it ends with %q", before, got[max(0, len(got)-40):])
			}
		}
	}
}
