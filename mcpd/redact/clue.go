package redact

import (
	"slices"
	"strings"
)

// A clue is a text that is a secret, or with which begins what is one or names one.
type clue struct {
	text string
	fold bool // in upper or lower case

	// look looks at the clue at i, notes the secret that belongs to it, if there
	// is one, and returns where to go on, i if it is nothing. It is nil where the
	// text itself is the secret.
	look func(s *scanner, i int) int
}

// at returns the length of the clue that s begins with, 0 if it does not. Of a secret the
// beginning will do where … says that it was cut.
func (c *clue) at(s string) int {
	n := len(c.text)
	if len(s) >= n && (s[:n] == c.text || c.fold && strings.EqualFold(s[:n], c.text)) {
		return n
	}
	if c.look != nil || n < Least || !strings.HasPrefix(s, c.text[:Least]) {
		return 0
	}
	for n = Least; n < min(len(s), len(c.text)) && s[n] == c.text[n]; n++ {
	}
	if strings.HasPrefix(s[n:], "…") {
		return n
	}
	return 0
}

// clues are clues by their first two bytes.
type clues struct {
	any    [1 << 10]bool // there is one
	of     [1 << 10][]clue
	margin int // how far past its beginning a text is looked at
}

// pair is the last five bits of each of two bytes, which are the same for a
// letter in upper case and in lower.
func pair(a, b byte) uint { return uint(a&31)<<5 | uint(b&31) }

func (cs *clues) add(c clue) {
	p := pair(c.text[0], c.text[1])
	cs.any[p] = true
	cs.of[p] = append(slices.Clip(cs.of[p]), c)
}

// addValues adds values that are secrets, in all their forms.
func (cs *clues) addValues(values []string) {
	for _, v := range values {
		for _, form := range forms(v) {
			cs.addValue(form)
		}
	}
}

// addValue adds a text that is a secret.
func (cs *clues) addValue(text string) {
	if !slices.ContainsFunc(cs.of[pair(text[0], text[1])], func(c clue) bool { return c.text == text && c.look == nil }) {
		cs.add(clue{text: text})
		cs.margin = max(cs.margin, len(text))
	}
}

// spare adds a text that is none, nor names one, where nothing follows that could
// belong to it.
func (cs *clues) spare(text string) {
	p := pair(text[0], text[1])
	if slices.ContainsFunc(cs.of[p], func(c clue) bool { return c.text == text && c.look != nil }) {
		return
	}
	cs.any[p] = true
	cs.of[p] = append([]clue{{text: text, look: func(s *scanner, i int) int {
		if end := i + len(text); end == len(s.src) || strings.IndexByte(":,;)\\\"'` \t\r\n", s.src[end]) >= 0 {
			return end
		}
		return i
	}}}, cs.of[p]...)
}

// next returns where the next clue in src may be, from i on, len(src) if there is
// none.
func (cs *clues) next(src string, i int) int {
	for ; i < len(src)-1; i++ {
		if cs.any[pair(src[i], src[i+1])] {
			return i
		}
	}
	return len(src)
}

// first returns where the first clue in src is, len(src) if there is none.
func (cs *clues) first(src string) int {
	for i := cs.next(src, 0); i < len(src); i = cs.next(src, i+1) {
		here := cs.of[pair(src[i], src[i+1])]
		for j := range here {
			if here[j].at(src[i:]) > 0 {
				return i
			}
		}
	}
	return len(src)
}

// patterns are the clues to secrets of a known form.
var patterns = new(clues)

func init() {
	patterns.margin = 512 // enough to tell whether it is a secret
	patterns.add(clue{text: "://", look: (*scanner).userinfo})
	patterns.add(clue{text: "-----BEGIN", look: (*scanner).pem})
	for _, sh := range shapes {
		for _, prefix := range sh.prefixes {
			patterns.add(clue{text: prefix, look: func(s *scanner, i int) int { return s.shape(i, len(prefix), sh) }})
		}
	}
	words := append([]string{"bearer", "basic"}, whole...)
	for _, n := range names {
		words = append(words, n.word)
	}
	for i, w := range words {
		words[i] = w[:3] // there may be a dash behind it
	}
	slices.Sort(words)
	for _, w := range slices.Compact(words) {
		patterns.add(clue{text: w, fold: true, look: (*scanner).word})
	}
}
