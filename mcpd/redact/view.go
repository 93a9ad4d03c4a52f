package redact

import (
	"fmt"
	"math/bits"
	"sort"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A view is a text in which what JSON can escape in several ways is written in one:
// + for \u002B, / for \/, \" for \u0022. In JSON inside a string, where the backslashes
// are escaped in turn, too: + for \\u002B. Secrets are looked for in it.
type view struct {
	text   string
	rounds [][]edit // that were made, each of what the one before has left
}

// An edit is a piece of the text, and the piece that it stands for in the text before.
type edit struct{ start, end, was, wasEnd int }

// maxRounds is how often the escapes are gone over: a round can bring some to light, as
// of \u005cu002B.
const maxRounds = 4

func viewOf(src string) view {
	v := view{text: src}
	if !strings.Contains(src, `\u`) && !strings.Contains(src, `\/`) {
		return v
	}
	for range maxRounds {
		text, edits := plain(v.text)
		if edits == nil {
			break
		}
		v.text, v.rounds = text, append(v.rounds, edits)
	}
	return v
}

// decoded returns a view of a view in which what URLs escape is written as it is, also
// where that is JSON again. Secrets that are known are looked for in it, and nothing
// else: what ends a value in a query is no longer told from what is in one.
func decoded(v view) view {
	u := view{text: v.text}
	for range maxRounds {
		text, edits := unescaped(u.text)
		if edits == nil {
			break
		}
		u.text, u.rounds = text, append(u.rounds, edits)
		inner := viewOf(text)
		u.text, u.rounds = inner.text, append(u.rounds, inner.rounds...)
	}
	return u
}

// unescaped returns the text with the byte for each %2F, and what it changed.
func unescaped(src string) (text string, edits []edit) {
	if strings.IndexByte(src, '%') < 0 {
		return src, nil
	}
	b := make([]byte, 0, len(src))
	for i := 0; i < len(src); i++ {
		if c, err := strconv.ParseUint(src[min(i+1, len(src)):min(i+3, len(src))], 16, 8); src[i] == '%' && err == nil && i+2 < len(src) {
			b = append(b, byte(c))
			edits = append(edits, edit{len(b) - 1, len(b), i, i + 3})
			i += 2
		} else {
			b = append(b, src[i])
		}
	}
	return string(b), edits
}

// plain returns the text with each escape written in one way, and what it changed. The
// number of backslashes says how deep a string is in others: 1, 2, 4 …, which are not
// escaped themselves.
func plain(src string) (text string, edits []edit) {
	var b strings.Builder
	done := 0
	for i := 0; ; {
		n := strings.IndexByte(src[i:], '\\')
		if n < 0 {
			break
		}
		from := i + n
		for i = from; i < len(src) && src[i] == '\\'; i++ {
		}
		unit := 1 << bits.TrailingZeros(uint(i-from))
		was, size := escaped(src[i:], unit)
		if size == 0 || was == src[i-unit:i+size] {
			continue
		}
		b.WriteString(src[done : i-unit])
		start := b.Len()
		b.WriteString(was)
		edits = append(edits, edit{start, b.Len(), i - unit, i + size})
		i += size
		done = i
	}
	if edits == nil {
		return src, nil
	}
	b.WriteString(src[done:])
	return b.String(), edits
}

// escaped returns how a view writes the escape at the beginning of s, which follows unit
// backslashes, and its length without these; 0 where nothing is to change.
func escaped(s string, unit int) (as string, size int) {
	if strings.HasPrefix(s, "/") {
		return "/", 1
	}
	r, size := unit16(s), len("u0000")
	if r < 0 {
		return "", 0
	}
	backslashes := strings.Repeat(`\`, unit)
	if utf16.IsSurrogate(r) {
		rest, ok := strings.CutPrefix(s[size:], backslashes)
		if r = utf16.DecodeRune(r, unit16(rest)); !ok || r == utf8.RuneError {
			return "", 0
		}
		size += unit + len("u0000")
	}
	if letter := strings.IndexRune("\b\f\n\r\t", r); letter >= 0 {
		return backslashes + "bfnrt"[letter:letter+1], size
	}
	switch {
	case r < ' ':
		return fmt.Sprintf(`%su%04x`, backslashes, r), size
	case r == '\\':
		return backslashes + backslashes, size
	case r == '"':
		return backslashes + backslashes[1:] + `"`, size
	}
	return string(r), size
}

// unit16 returns the number of the uXXXX that s begins with, -1 if it does not.
func unit16(s string) rune {
	if len(s) < 5 || s[0] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(s[1:5], 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// source returns the part of the original text that a part of the view stands for. An
// escape of which it has some is in it as a whole.
func (v *view) source(sp span) span {
	for i := len(v.rounds) - 1; i >= 0; i-- {
		edits := v.rounds[i]
		if at := sort.Search(len(edits), func(i int) bool { return edits[i].start > sp.start }) - 1; at >= 0 {
			if e := edits[at]; sp.start < e.end {
				sp.start = e.was
			} else {
				sp.start += e.wasEnd - e.end
			}
		}
		if at := sort.Search(len(edits), func(i int) bool { return edits[i].start >= sp.end }) - 1; at >= 0 {
			if e := edits[at]; sp.end <= e.end {
				sp.end = e.wasEnd
			} else {
				sp.end += e.wasEnd - e.end
			}
		}
	}
	return sp
}
