package ledger

import (
	"bytes"
	"encoding/base64"
)

// isWord marks the bytes of words: keys and most secrets are one.
var isWord = func() (t [256]bool) {
	for c := range t {
		t[c] = 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
	}
	return t
}()

// isBearer marks the bytes of bearer tokens.
var isBearer = func() (t [256]bool) {
	t = isWord
	for _, c := range "._~+/=%" {
		t[c] = true
	}
	return t
}()

// mayFollow marks the bytes that can follow a key whose value comes.
var mayFollow = func() (t [256]bool) {
	for _, c := range "\"'`\\:=>+ \t\r\n" {
		t[c] = true
	}
	return t
}()

// A scanner goes over a text once, word by word, and notes the secrets of a
// known form.
type scanner struct {
	src   []byte
	spans []span
}

func (s *scanner) scan() {
	src := s.src
	for i := 0; i < len(src); {
		c := src[i]
		if !isWord[c] {
			if c == ':' && i+2 < len(src) && src[i+1] == '/' && src[i+2] == '/' {
				i = s.userinfo(i + 3)
				continue
			}
			i++
			continue
		}
		start := i
		var h uint16
		var hint uint64
		for {
			h = (h<<5 | uint16(c&31)) % trigrams
			hint |= hints[h/64] >> (h % 64)
			if i++; i == len(src) {
				break
			}
			if c = src[i]; !isWord[c] {
				break
			}
		}
		if hint&1 != 0 || shapeHint(src, start) || start > 0 && (src[start-1] == '\\' || src[start-1] == '%') {
			i = s.word(start, i)
		}
	}
}

func (s *scanner) note(start, end, quote int) int {
	s.spans = append(s.spans, span{start, end, quote})
	return end
}

// word looks at the word from i to end and returns where to go on.
func (s *scanner) word(i, end int) int {
	start := i // without the characters of an escape
	if e := shapeEnd(s.src, i, end); e > i {
		return s.note(i, e, 0)
	}
	if i > 0 && (s.src[i-1] == '\\' || s.src[i-1] == '%') {
		start = min(s.afterEscape(i), end)
		if e := shapeEnd(s.src, start, end); e > start {
			return s.note(start, e, 0)
		}
	}
	if end == len(s.src) || !mayFollow[s.src[end]] {
		return end
	}
	if n := end - start; n == len("bearer") || n == len("basic") {
		if e := s.scheme(start, end); e > end {
			return e
		}
	}
	v, ok := s.value(i, end)
	if !ok {
		return end
	}
	return s.redactValue(v)
}

// afterEscape returns where the word at i starts if its first characters
// belong to an escape, as in "\nghp_…" and %22ghp_….
func (s *scanner) afterEscape(i int) int {
	if s.src[i-1] == '%' {
		return i + 2
	}
	switch s.src[i] {
	case 'n', 'r', 't', 'b', 'f':
		return i + 1
	case 'u':
		return i + 5
	}
	return i
}

// scheme notes the credentials after the word Bearer or Basic, and returns where they
// end, or end if there are none.
func (s *scanner) scheme(i, end int) int {
	w := s.src[i:end]
	bearer := bytes.EqualFold(w, []byte("bearer"))
	basic := bytes.EqualFold(w, []byte("basic"))
	if !bearer && !basic {
		return end
	}
	start := end
	for start < len(s.src) && (s.src[start] == ' ' || s.src[start] == '+') {
		start++
	}
	stop := start
	for stop < len(s.src) && isBearer[s.src[stop]] {
		stop++
	}
	if start == end || stop-start < leastSecret {
		return end
	}
	if basic && !userPass(s.src[start:stop]) {
		return end
	}
	return s.note(start, stop, 0)
}

// userPass tells whether b is user:password in base64. Of a text that is
// cut only the beginning is looked at.
func userPass(b []byte) bool {
	b = bytes.TrimRight(b, "=")
	b = b[:len(b)&^3]
	out := make([]byte, base64.RawStdEncoding.DecodedLen(len(b)))
	n, err := base64.RawStdEncoding.Decode(out, b)
	return err == nil && bytes.IndexByte(out[:n], ':') >= 0
}

// userinfo notes the password in a URL whose authority starts at i, and
// returns where to go on.
func (s *scanner) userinfo(i int) int {
	const most = 256
	colon := -1
	for j := i; j < len(s.src) && j < i+most; j++ {
		switch c := s.src[j]; {
		case c == '@' && colon > 0 && j > colon+1:
			return s.note(colon+1, j, 0)
		case c == ':' && colon < 0:
			colon = j
		case c <= ' ', c == '/', c == '?', c == '#', c == '@', c == '"', c == '\'', c == '\\', c == '<', c == '>':
			return i
		}
	}
	return i
}
