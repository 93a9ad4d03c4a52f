package frame

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	preamble    = "\x00CAPSEM_META:"
	maxPreamble = 4096
)

// AppendPreamble appends to b the preamble that names the process.
func AppendPreamble(b []byte, process string) []byte {
	b = append(b, preamble...)
	b = append(b, SanitizeName(process)...)
	return append(b, '\n')
}

// SanitizeName returns name as a frame may carry it: control characters,
// spaces and what is not UTF-8 become '_', and it is cut to MaxName bytes.
func SanitizeName(name string) string {
	name = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || unicode.IsSpace(c) || c == utf8.RuneError {
			return '_'
		}
		return c
	}, name)
	if len(name) <= MaxName {
		return name
	}
	n := MaxName
	for !utf8.RuneStart(name[n]) {
		n--
	}
	return name[:n]
}
