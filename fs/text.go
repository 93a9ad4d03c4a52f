package fs

import (
	"strings"
	"unicode/utf8"
)

// leadWith returns s with prefix in front, moved there if it stands inside.
func leadWith(prefix, s string) string {
	switch {
	case strings.HasPrefix(s, prefix):
		return s
	case strings.HasSuffix(s, ": "+prefix):
		return prefix + ": " + strings.TrimSuffix(s, ": "+prefix)
	}
	return prefix + ": " + strings.Replace(s, prefix+": ", "", 1)
}

// oneLine returns s with its line ends made into "; ", as a PlainLine: somebody else
// may have written a part of it.
func oneLine(s string) string {
	return PlainLine(strings.ReplaceAll(strings.TrimRight(s, "\r\n"), "\n", "; "))
}

// shown is how many bytes Shorten leaves.
const shown = 100

// Shorten returns the beginning of a name or a message of somebody else's, with … behind
// it if that is not all, so that an error which tells of it stays a line to read.
func Shorten(s string) string {
	if len(s) <= shown {
		return s
	}
	n := shown
	for n > shown-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
