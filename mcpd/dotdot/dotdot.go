// Package dotdot finds the ".." in a path in whatever form a program could take
// for one: percent-encoded, also more than once, behind backslashes, in
// characters that look like dots and slashes, or in overlong UTF-8.
package dotdot

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// MaxStages is how many Stages a path may have.
const MaxStages = 8

// Stages returns s, and what is left when what is percent-encoded in it is
// decoded, once, twice and so on. It is not whole where that does not end within
// MaxStages.
func Stages(s string) (stages []string, whole bool) {
	stages = []string{s}
	for {
		next := unescape(s)
		if next == s {
			return stages, true
		}
		if len(stages) == MaxStages {
			return stages, false
		}
		stages = append(stages, next)
		s = next
	}
}

// InAny tells whether ".." is in s at any stage, or could be at one that is not
// looked at.
func InAny(s string) bool {
	stages, whole := Stages(s)
	return !whole || slices.ContainsFunc(stages, In)
}

// overlong are ways to write . and / in more bytes than UTF-8 has for them.
var overlong = strings.NewReplacer(
	"\xc0\xae", ".", "\xe0\x80\xae", ".", "\xf0\x80\x80\xae", ".",
	"\xc0\xaf", "/", "\xe0\x80\xaf", "/", "\xf0\x80\x80\xaf", "/", "\xc1\x9c", "/", "\xe0\x81\x9c", "/",
)

// In tells whether somebody might read an element of s as "..", but for what is
// percent-encoded in it.
func In(s string) bool {
	s = norm.NFKC.String(overlong.Replace(s))
	s = strings.Map(func(c rune) rune {
		switch {
		case c == '\\' || c == '\u2215' || c == '\u29f8': // what looks like a slash
			return '/'
		case unicode.Is(unicode.Cf, c) || unicode.IsControl(c): // nothing to see
			return -1
		}
		return c
	}, s)
	for element := range strings.SplitSeq(s, "/") {
		element, _, _ = strings.Cut(element, ";") // as some servers do
		if strings.TrimSpace(element) == ".." {
			return true
		}
	}
	return false
}

// unescape decodes what is percent-encoded in s: %2e, and %u002e as some have
// it. A % that starts nothing of the kind stays.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		rest := s[i:]
		switch {
		case len(rest) >= 3 && rest[0] == '%' && isHex(rest[1:3]):
			b.WriteByte(byte(hex(rest[1:3])))
			i += 2
		case len(rest) >= 6 && rest[0] == '%' && (rest[1] == 'u' || rest[1] == 'U') && isHex(rest[2:6]):
			b.WriteRune(hex(rest[2:6]))
			i += 5
		default:
			b.WriteByte(rest[0])
		}
	}
	return b.String()
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdefABCDEF") == "" }

func hex(s string) (n rune) {
	for _, c := range strings.ToLower(s) {
		n = n<<4 | rune(strings.IndexRune("0123456789abcdef", c))
	}
	return n
}
