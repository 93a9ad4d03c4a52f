package redact

import (
	"bytes"
	"encoding/base64"
	"strings"
)

// A scanner goes over a text once and notes the secrets in it.
type scanner struct {
	src   string
	from  int // what is before has been looked at for secrets of a known form
	spans []span
	known bool // it looks for known values only
	place func(span) span
}

// scan notes the secrets from i on.
func (s *scanner) scan(clues *clues, i int) {
	for ; i < len(s.src); i = clues.next(s.src, i+1) {
		here := clues.of[pair(s.src[i], s.src[i+1])]
		for j := range here {
			c := &here[j]
			known := c.look == nil
			if !known && (s.known || i < s.from) {
				continue
			}
			switch n := c.at(s.src[i:]); {
			case n == 0:
			case known:
				s.spans = append(s.spans, s.place(span{start: i, end: i + n}))
			default:
				if next := c.look(s, i); next > i {
					s.from = next
				}
			}
		}
	}
}

// escaping returns a part of src with the escapes of which it has some.
func escaping(src string, sp span) span {
	sp.start, _ = escapeAt(src, sp.start)
	_, sp.end = escapeAt(src, sp.end)
	return sp
}

// escapeAt returns the bounds of the escape in src of which a part is before i and a part
// behind it; of none, i and i.
func escapeAt(src string, i int) (start, end int) {
	for at := i - 1; at >= 0 && at > i-len(`\u0000`); at-- {
		if src[at] != '\\' {
			continue
		}
		first := at
		for first > 0 && src[first-1] == '\\' {
			first--
		}
		end := at + len(`\n`)
		if strings.HasPrefix(src[at:], `\u`) {
			end = at + len(`\u0000`)
		}
		if (at-first)%2 == 0 && end > i {
			return at, min(end, len(src))
		}
		break
	}
	return i, i
}

func (s *scanner) note(start, end, quote int) int {
	s.spans = append(s.spans, span{start, end, quote})
	return end
}

// isWord marks the bytes of words: keys and most secrets are one.
var isWord = bytesOf("-_")

// isBearer marks the bytes of bearer tokens.
var isBearer = bytesOf("-_._~+/=%")

// isUserinfo marks the bytes that may be before the @ of a URL.
var isUserinfo = func() (t [256]bool) {
	for c := range t {
		t[c] = c > ' ' && strings.IndexByte("/?#@\"'\\<>", byte(c)) < 0
	}
	return t
}()

// bytesOf marks ASCII's letters and digits, and the bytes of more.
func bytesOf(more string) (t [256]bool) {
	for c := range t {
		t[c] = 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
	}
	for _, c := range []byte(more) {
		t[c] = true
	}
	return t
}

// endOf returns where the bytes that t marks end, from i on.
func (s *scanner) endOf(t *[256]bool, i int) int {
	for i < len(s.src) && t[s.src[i]] {
		i++
	}
	return i
}

// begins tells whether a word begins at i. What is before it may be an escape,
// as in "\nghp_…" and %22ghp_….
func (s *scanner) begins(i int) bool {
	before := s.src[s.from:i]
	n := len(before)
	switch {
	case n == 0 || !isWord[before[n-1]]:
		return true
	case n >= 2 && before[n-2] == '\\':
		return strings.IndexByte("nrtbf", before[n-1]) >= 0
	}
	return n >= 3 && before[n-3] == '%' || n >= 6 && before[n-6] == '\\' && before[n-5] == 'u'
}

// word looks at the word around i.
func (s *scanner) word(i int) int {
	end := s.endOf(&isWord, i)
	if end == len(s.src) || strings.IndexByte("\"'`\\:=>+ \t\r\n", s.src[end]) < 0 {
		return end
	}
	if s.begins(i) {
		if e := s.scheme(i, end); e > end {
			return e
		}
	}
	for i > s.from && isWord[s.src[i-1]] {
		i--
	}
	v, ok := s.value(i, end)
	if !ok {
		return end
	}
	return s.redactValue(v)
}

// scheme notes the credentials after the word Bearer or Basic, and returns
// where they end, or end if there are none.
func (s *scanner) scheme(i, end int) int {
	bearer := strings.EqualFold(s.src[i:end], "bearer")
	basic := strings.EqualFold(s.src[i:end], "basic")
	if !bearer && !basic {
		return end
	}
	start := s.past(end, " +")
	stop := s.endOf(&isBearer, start)
	if start == end || stop-start < Least || basic && !userPass(s.src[start:stop]) {
		return end
	}
	return s.note(start, stop, 0)
}

// userPass tells whether s is user:password in base64. Of a text that is
// cut only the beginning is looked at.
func userPass(s string) bool {
	s = strings.TrimRight(s, "=")
	out, err := base64.RawStdEncoding.DecodeString(s[:len(s)&^3])
	return err == nil && bytes.IndexByte(out, ':') >= 0
}

// userinfo notes the password in the URL whose authority follows the "://" at i.
func (s *scanner) userinfo(i int) int {
	start := i + len("://")
	end := s.endOf(&isUserinfo, start)
	if end < len(s.src) && s.src[end] == '@' {
		if n := strings.IndexByte(s.src[start:end], ':'); n >= 0 && start+n+1 < end {
			return s.note(start+n+1, end, 0)
		}
	}
	return start
}
