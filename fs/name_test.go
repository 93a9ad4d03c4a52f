package fs

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

func TestCheckWord(t *testing.T) {
	for name, want := range map[string]error{
		"dev": nil, "a": nil, "A.b_c-9": nil, "1": nil, "-x": nil, strings.Repeat("a", 64): nil,
		"": ErrInvalid, ".": ErrInvalid, "..": ErrInvalid, ".x": ErrInvalid, "a/b": ErrInvalid,
		"a b": ErrInvalid, "a\x00": ErrInvalid, "ä": ErrInvalid, "a\n": ErrInvalid,
		strings.Repeat("a", 65): ErrTooLong, strings.Repeat("a", 300): ErrTooLong,
	} {
		if err := CheckWord("VM", name); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", name, err, want)
		}
	}
}

// Whatever a thing is called, its file's name is one, and leads back to it unless it
// was cut.
func FuzzFileName(f *testing.F) {
	for _, s := range []string{"a", "a/b", "..", ".", "", "%2F", "a\x00b\xff", strings.Repeat("é", 200), strings.Repeat(".", 300)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name := FileName(s)
		if err := CheckName(name); err != nil {
			t.Errorf("%q is %q: %v", s, name, err)
		}
		if back, err := url.PathUnescape(name); len(name) < MaxName && s != "" && (back != s || err != nil) {
			t.Errorf("%q is %q, which leads to %q, %v", s, name, back, err)
		}
	})
}
