package ledger

import "bytes"

// A shape is how a well-known kind of key looks: a prefix at the beginning
// of a word and at least so many more characters of a word.
type shape struct {
	prefix string
	more   int
	upper  bool // they are capitals and digits
	dotted bool // words joined by dots, at least two
}

var shapes = []shape{
	{prefix: "sk-", more: 12}, // OpenAI, Anthropic and many after them
	{prefix: "sk_live_", more: 8},
	{prefix: "sk_test_", more: 8},
	{prefix: "rk_live_", more: 8},
	{prefix: "whsec_", more: 12},
	{prefix: "ghp_", more: 8},
	{prefix: "gho_", more: 8},
	{prefix: "ghu_", more: 8},
	{prefix: "ghs_", more: 8},
	{prefix: "ghr_", more: 8},
	{prefix: "github_pat_", more: 8},
	{prefix: "glpat-", more: 8},
	{prefix: "xoxa-", more: 8},
	{prefix: "xoxb-", more: 8},
	{prefix: "xoxc-", more: 8},
	{prefix: "xoxd-", more: 8},
	{prefix: "xoxe-", more: 8},
	{prefix: "xoxo-", more: 8},
	{prefix: "xoxp-", more: 8},
	{prefix: "xoxr-", more: 8},
	{prefix: "xoxs-", more: 8},
	{prefix: "xapp-", more: 8},
	{prefix: "AIza", more: 20},
	{prefix: "hf_", more: 20},
	{prefix: "npm_", more: 20},
	{prefix: "pypi-", more: 20},
	{prefix: "dop_v1_", more: 20},
	{prefix: "shpat_", more: 16},
	{prefix: "AGE-SECRET-KEY-", more: 8},
	{prefix: "AKIA", more: 16, upper: true},
	{prefix: "ASIA", more: 16, upper: true},
	{prefix: "eyJ", more: 6, dotted: true}, // JSON Web Token
	{prefix: "ya29", more: 10, dotted: true},
	{prefix: "SG", more: 30, dotted: true},
}

// byFirst holds the shapes by their first byte.
var byFirst = func() (t [256][]shape) {
	for _, s := range shapes {
		t[s.prefix[0]] = append(t[s.prefix[0]], s)
	}
	return t
}()

// pairs marks the first two bytes of shapes, five bits of each.
var pairs = func() (t [1 << 10]bool) {
	for _, s := range shapes {
		t[pair(s.prefix[0], s.prefix[1])] = true
	}
	t[pair('-', '-')] = true
	return t
}()

func pair(a, b byte) uint16 { return uint16(a&31)<<5 | uint16(b&31) }

// shapeHint tells whether a key of a known shape may start at i.
func shapeHint(src []byte, i int) bool {
	return i+1 < len(src) && pairs[pair(src[i], src[i+1])]
}

// shapeEnd returns where the key that starts at i ends, or i if none does.
// The word there ends at end.
func shapeEnd(src []byte, i, end int) int {
	if i >= end {
		return i
	}
	for _, s := range byFirst[src[i]] {
		if !bytes.HasPrefix(src[i:end], []byte(s.prefix)) {
			continue
		}
		if e := s.end(src, i, end); e > i {
			return e
		}
	}
	if bytes.HasPrefix(src[i:end], []byte("-----BEGIN")) {
		return pemEnd(src, i)
	}
	return i
}

func (s *shape) end(src []byte, i, end int) int {
	rest := i + len(s.prefix)
	if s.dotted {
		dots := 0
		for end+1 < len(src) && src[end] == '.' && isWord[src[end+1]] {
			dots++
			for end++; end < len(src) && isWord[src[end]]; end++ {
			}
		}
		if dots == 0 && end+1 < len(src) {
			return i
		}
	}
	if end-rest < s.more {
		return i
	}
	if s.upper {
		for _, c := range src[rest : rest+s.more] {
			if (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
				return i
			}
		}
	}
	return end
}

// pemEnd returns where the private key whose first line starts at i ends: after
// its last line, or where the string that holds it ends.
func pemEnd(src []byte, i int) int {
	head := src[i:min(len(src), i+64)]
	if !bytes.Contains(head, []byte("PRIVATE KEY")) {
		return i
	}
	rest := src[i+len("-----BEGIN"):]
	if n := bytes.Index(rest, []byte("-----END")); n >= 0 {
		end := i + len("-----BEGIN") + n + len("-----END")
		if n := bytes.Index(src[end:min(len(src), end+64)], []byte("-----")); n >= 0 {
			return end + n + len("-----")
		}
		return end
	}
	if n := bytes.IndexAny(rest, `"'`); n >= 0 {
		return i + len("-----BEGIN") + n
	}
	return len(src)
}
