package redact

import (
	"slices"
	"strings"
)

// A value is where the value of a secret's key starts, and how that key looked.
type value struct {
	at    int
	is    secrecy
	quote int  // the key's own quoting, as in span; 0 if it has none
	sep   byte // what stands between key and value
}

// value returns where the value of the key from i to end starts, if that
// is a key and names a secret.
func (s *scanner) value(i, end int) (value, bool) {
	at, quote := s.quoteAt(end)
	v := value{quote: quote}
	at = s.space(at)
	if at >= len(s.src) {
		return v, false
	}
	flag := s.src[i] == '-' && end-i > 2 && s.src[i+1] == '-'
	switch c := s.src[at]; {
	case c == ':' || c == '=':
		v.sep = c
		at = s.past(at+1, "=>")
	case c == '>' && i > 0 && s.src[i-1] == '<':
		v.sep = c
		at++
	case c == ',' && quote > 0:
		v.sep = c
	case flag && quote == 0 && at > end:
		v.sep = ' '
	default:
		return v, false
	}
	if v.is = keySecrecy(s.src[i:end]); v.is == 0 {
		return v, false
	}
	if v.sep == ',' {
		if at = s.afterComma(i, at, flag, v.is); at < 0 {
			return v, false
		}
	}
	if quote > 0 || v.sep == ',' {
		v.at = s.space(at)
	} else {
		v.at = s.past(at, " \t")
	}
	if s.src[i:end] == "PWD" && s.isFolder(v.at) {
		return v, false
	}
	return v, v.at < len(s.src) && (quote > 0 || v.sep == ',' || !s.closes(v.at))
}

// isFolder tells whether a path begins at i: PWD is the folder of a program, if it is
// no password.
func (s *scanner) isFolder(i int) bool {
	start, _ := s.quoteAt(i)
	return strings.HasPrefix(s.src[start:], "/")
}

// past returns the first position from i on that has none of some characters.
func (s *scanner) past(i int, some string) int {
	for i < len(s.src) && strings.IndexByte(some, s.src[i]) >= 0 {
		i++
	}
	return i
}

// closes tells whether the quote at i, if there is one, ends the string in which
// the key stands: what follows goes on with JSON.
func (s *scanner) closes(i int) bool {
	after, quote := s.quoteAt(i)
	if quote == 0 {
		return false
	}
	after = s.space(after)
	return after == len(s.src) || strings.IndexByte(",}]:", s.src[after]) >= 0
}

// afterComma returns where the value of a key starts that is a string of its
// own: {"name":"Cookie","value":"…"}, ("Cookie", "…") and ["--token", "…"].
// It returns -1 if there is none.
func (s *scanner) afterComma(i, comma int, flag bool, is secrecy) int {
	at := s.space(comma + 1)
	start, quote := s.quoteAt(at)
	if quote == 0 {
		return -1
	}
	if strings.HasPrefix(s.src[start:], "value") {
		if colon, q := s.quoteAt(start + len("value")); q == quote {
			if colon = s.space(colon); colon < len(s.src) && s.src[colon] == ':' {
				return colon + 1
			}
		}
	}
	before := i - quote - 1
	if flag || is&wide != 0 && before >= 0 && (s.src[before] == '[' || s.src[before] == '(') {
		return at
	}
	return -1
}

// quoteAt returns what follows the quote at i, with its backslashes, and
// how it is quoted; if there is none it returns i and 0.
func (s *scanner) quoteAt(i int) (after, quote int) {
	j := s.past(i, `\`)
	if j < len(s.src) && (s.src[j] == '"' || s.src[j] == '\'' || s.src[j] == '`') {
		return j + 1, j - i + 1
	}
	return i, 0
}

// space returns the first position from i on that is no white space, written
// out or as an escape.
func (s *scanner) space(i int) int {
	for {
		i = s.past(i, " \t\r\n")
		j := s.past(i, `\`)
		if j == i || j == len(s.src) || s.src[j] != 'n' && s.src[j] != 't' && s.src[j] != 'r' {
			return i
		}
		i = j + 1
	}
}

// redactValue notes v's value and returns where to go on.
func (s *scanner) redactValue(v value) int {
	if start, quote := s.quoteAt(v.at); quote > 0 {
		end, next := closing(s.src, start, s.src[start-1], quote-1)
		if !isMask(s.src[start:end]) {
			s.note(start, end, 0)
		}
		return next
	}
	if c := s.src[v.at]; (c == '{' || c == '[') && v.quote > 0 && v.sep != ',' {
		end := s.balanced(v.at)
		if end-v.at <= 2 {
			return end
		}
		return s.note(v.at, end, v.quote)
	}
	end := s.bare(v)
	if end == v.at || s.plainValue(v, end) {
		return max(end, v.at)
	}
	quote := 0
	if v.quote > 0 && v.is&wide == 0 {
		quote = v.quote
	}
	return s.note(v.at, end, quote)
}

// closing returns where the text of a string ends whose opening quote has depth
// backslashes, and where to go on after it. Its closing quote has as many,
// behind whole pairs of what a backslash is at that depth.
func closing(src string, start int, quote byte, depth int) (end, next int) {
	for at := start; at < len(src); {
		n := strings.IndexByte(src[at:], quote)
		if n < 0 {
			break
		}
		q := at + n
		slashes := 0
		for q-slashes > start && src[q-slashes-1] == '\\' {
			slashes++
		}
		if slashes < depth || slashes%(2*(depth+1)) == depth {
			return q - min(slashes, depth), q + 1
		}
		at = q + 1
	}
	return len(src), len(src)
}

// balanced returns where the object or array at i ends.
func (s *scanner) balanced(i int) int {
	depth := 0
	for i < len(s.src) {
		switch s.src[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		case '"', '\\':
			if start, quote := s.quoteAt(i); quote > 0 {
				_, i = closing(s.src, start, s.src[start-1], quote-1)
				continue
			}
		}
		i++
	}
	return i
}

// bare returns where the unquoted value v ends.
func (s *scanner) bare(v value) int {
	i := v.at
	for ; i < len(s.src); i++ {
		switch c := s.src[i]; {
		case c == '\n' || c == '\r' || c == '"':
			return i
		case (c == '\'' || c == '`') && (i+1 == len(s.src) || !isWord[s.src[i+1]]):
			return i
		case c == '\\':
			next := s.past(i, `\`)
			if next == len(s.src) || strings.IndexByte("nrt\"'`", s.src[next]) >= 0 {
				return i
			}
			i = next - 1
		case c == '<' && v.sep == '>':
			return i
		case v.quote > 0 && (c == ',' || c == '}' || c == ']'):
			return i
		case v.is&wide != 0:
		case c == ' ' || c == '\t':
			return i
		case c == '&' && v.sep == '=' && nextParameter(s.src[i+1:]):
			return i
		}
	}
	return i
}

// nextParameter tells whether text starts as the next parameter of a URL's query.
func nextParameter(text string) bool {
	n := 0
	for n < len(text) && isBearer[text[n]] && text[n] != '=' {
		n++
	}
	return n > 0 && n < len(text) && text[n] == '='
}

// plainValue tells whether the bare value v, up to end, is no secret.
func (s *scanner) plainValue(v value, end int) bool {
	text := strings.TrimSpace(s.src[v.at:end])
	switch text {
	case "null", "true", "false", "{}", "[]":
		return true
	}
	if isMask(text) || v.quote == 0 && v.is&wide == 0 && v.sep == ':' && s.src[v.at-1] == ' ' && s.prose(v.at) {
		return true
	}
	if v.sep == ' ' && s.ofFlag(v.at) {
		return true
	}
	if v.is&counted == 0 || v.quote == 0 {
		return false
	}
	return strings.Trim(text, "0123456789.,;") == ""
}

// isMask tells whether a value hides or leaves out what was there, or is "..".
func isMask(text string) bool { return strings.Trim(text, ".*") == "" }

// errorWords are what errors about a thing begin with after its name and a colon,
// beside words that are shorter than a secret.
var errorWords = []string{
	"broken", "cannot", "connection", "device", "directory", "expired", "function", "interrupted", "invalid", "missing",
	"operation", "permission", "refused", "required", "resource", "unknown",
}

// prose tells whether the sentence goes on at i, after a word that names a secret and
// a colon, rather than that a secret is there: "secret: is a directory". It takes
// a word for one of a sentence that is in errorWords, or too short for a secret and
// before another word.
func (s *scanner) prose(i int) bool {
	end := s.lower(i)
	word, rest := s.src[i:end], s.src[end:]
	if after := strings.TrimLeft(rest, ".,;)"); after != "" && strings.IndexByte(" \t\r\n\"'`\\", after[0]) < 0 {
		return false // it is but the beginning of a longer one
	}
	if slices.Contains(errorWords, word) || end > i && len(word) <= shortWord {
		return true
	}
	return len(word) < Least && s.goesOn(end)
}

// flagWords are what sentences have after the name of a flag.
var flagWords = []string{"and", "argument", "flag", "is", "option", "or", "parameter"}

// ofFlag tells whether the sentence goes on at i, after a flag whose name is that of a
// secret, rather than that a secret is there: "the --token flag or".
func (s *scanner) ofFlag(i int) bool {
	end := s.lower(i)
	return slices.Contains(flagWords, s.src[i:end]) && s.goesOn(end)
}

// goesOn tells whether a word that ends at i is before another.
func (s *scanner) goesOn(i int) bool {
	if i == len(s.src) || s.src[i] != ' ' {
		return false
	}
	end := s.lower(i + 1)
	return end > i+1 && (end == len(s.src) || strings.IndexByte(" .,;)\n\"'", s.src[end]) >= 0)
}

// lower returns where the lower-case letters from i on end.
func (s *scanner) lower(i int) int {
	for i < len(s.src) && 'a' <= s.src[i] && s.src[i] <= 'z' {
		i++
	}
	return i
}

// shortWord is how long a word is at most that nobody takes for a secret.
const shortWord = 2
