package dotdot

import (
	"strings"
	"testing"
)

func TestIn(t *testing.T) {
	for _, s := range []string{
		"..", "a/..", "../a", `a\..\b`, "%2e%2e/a", "a/%2E./b", "%252e%252e", "%u002e%u002e/a", "%u002E./a", "..%2fa", "..%5ca",
		"\uff0e\uff0e/a", "\u2025", "..\uff0fa", "..\u2215a", "..\u29f8a", "%EF%BC%8E%EF%BC%8E",
		"\xc0\xae\xc0\xae/a", "\xe0\x80\xae./a", "\xf0\x80\x80\xae./a", "..\xc0\xafa", "..\xc1\x9ca", "..\xe0\x81\x9ca", "%c0%ae%c0%ae",
		".\u200b./a", "\u202e../a", ".\x01.", "..\x00/a", " ../a", ".. /a", "..%20/a", "..;x=1/a",
		"%" + strings.Repeat("25", MaxStages) + "2e",
	} {
		if !InAny(s) {
			t.Errorf("%q has none", s)
		}
	}
	for _, s := range []string{"", ".", "...", "a..", "..a", "a/..b/c", ". .", "\u2026", "100%", "%", "%2", "%zz", "%u00", "%41", `a\b`, "a;..b"} {
		if InAny(s) {
			t.Errorf("%q has one", s)
		}
	}
}
