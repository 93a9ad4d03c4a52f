package redact

import "strings"

// A shape is how a well-known kind of key looks: a prefix at the beginning
// of a word and at least so many more characters of a word.
type shape struct {
	more     int
	prefixes []string
	upper    bool // they are capitals and digits
	dotted   bool // words joined by dots, at least two
}

var shapes = []shape{
	{more: 12, prefixes: []string{"sk-", "whsec_"}}, // OpenAI, Anthropic and many after them
	{more: 8, prefixes: []string{
		"sk_live_", "sk_test_", "rk_live_",
		"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-",
		"xoxa-", "xoxb-", "xoxc-", "xoxd-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-",
		"AGE-SECRET-KEY-",
	}},
	{more: 20, prefixes: []string{"AIza", "hf_", "npm_", "pypi-", "dop_v1_"}},
	{more: 16, prefixes: []string{"shpat_"}},
	{more: 16, prefixes: []string{"AKIA", "ASIA"}, upper: true},
	{more: 6, prefixes: []string{"eyJ"}, dotted: true}, // JSON Web Token
	{more: 10, prefixes: []string{"ya29"}, dotted: true},
	{more: 30, prefixes: []string{"SG"}, dotted: true},
}

// shape looks at the key whose prefix, of n bytes, is at i.
func (s *scanner) shape(i, n int, sh shape) int {
	if !s.begins(i) {
		return i
	}
	rest := i + n
	end := s.endOf(&isWord, rest)
	if sh.dotted {
		first := end
		for end+1 < len(s.src) && s.src[end] == '.' && isWord[s.src[end+1]] {
			end = s.endOf(&isWord, end+1)
		}
		if end == first && end+1 < len(s.src) {
			return i
		}
	}
	if end-rest < sh.more {
		return i
	}
	if sh.upper && strings.ContainsFunc(s.src[rest:rest+sh.more], func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') }) {
		return i
	}
	return s.note(i, end, 0)
}

// pem notes the private key whose first line starts at i: to the end of its last
// line, or of the string that holds it.
func (s *scanner) pem(i int) int {
	const head, tail, dashes = "-----BEGIN", "-----END", "-----"
	if !s.begins(i) || !strings.Contains(s.src[i:min(len(s.src), i+64)], "PRIVATE KEY") {
		return i
	}
	rest := s.src[i+len(head):]
	end := len(rest)
	if n := strings.Index(rest, tail); n >= 0 {
		end = n + len(tail)
		if n := strings.Index(rest[end:min(len(rest), end+64)], dashes); n >= 0 {
			end += n + len(dashes)
		}
	} else if n := strings.IndexAny(rest, `"'`); n >= 0 {
		end = n
	}
	return s.note(i, i+len(head)+end, 0)
}
