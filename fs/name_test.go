package fs

import (
	"errors"
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
