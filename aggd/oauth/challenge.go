package oauth

import "strings"

// A challenge is what a server says in WWW-Authenticate of how it is to be asked
// (RFC 9110, 11.6.1): the parameters of one scheme, their names in lower case.
type challenge struct {
	scheme string // in lower case
	params map[string]string
}

// maxChallenges is how many bytes of WWW-Authenticate are read.
const maxChallenges = 16 << 10

// bearer returns the first challenge of the scheme Bearer (RFC 6750), with no
// parameters if there is none.
func bearer(headers []string) challenge {
	for _, c := range parseChallenges(strings.Join(headers, ", ")) {
		if c.scheme == "bearer" {
			return c
		}
	}
	return challenge{}
}

// parseChallenges reads the challenges of a header. What is none is passed over up to
// the next comma.
func parseChallenges(text string) (all []challenge) {
	s := &scanner{rest: text[:min(len(text), maxChallenges)]}
	for s.skip(" \t,"); s.rest != ""; s.skip(" \t,") {
		word := strings.ToLower(s.token())
		s.skip(" \t")
		switch {
		case word == "":
			s.junk()
		case strings.HasPrefix(s.rest, "="):
			if value, ok := s.value(); !ok {
				s.junk() // as in what is of one piece, in base64
			} else if n := len(all); n > 0 {
				if _, twice := all[n-1].params[word]; !twice {
					all[n-1].params[word] = value
				}
			}
		default:
			all = append(all, challenge{word, map[string]string{}})
		}
	}
	return all
}

// A scanner takes pieces off the front of a text.
type scanner struct{ rest string }

func (s *scanner) skip(chars string) { s.rest = strings.TrimLeft(s.rest, chars) }

// junk takes what stands before the next comma.
func (s *scanner) junk() {
	_, s.rest, _ = strings.Cut(s.rest, ",")
}

// token takes the characters that a token has.
func (s *scanner) token() string {
	end := strings.IndexFunc(s.rest, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
	if end < 0 {
		end = len(s.rest)
	}
	word := s.rest[:end]
	s.rest = s.rest[end:]
	return word
}

// value takes = and what follows it, a token or a quoted text.
func (s *scanner) value() (string, bool) {
	s.rest = s.rest[1:]
	s.skip(" \t")
	if !strings.HasPrefix(s.rest, `"`) {
		word := s.token()
		return word, word != ""
	}
	var b strings.Builder
	for i := 1; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case c == '"':
			s.rest = s.rest[i+1:]
			return b.String(), true
		case c == '\\' && i+1 < len(s.rest):
			i++
			b.WriteByte(s.rest[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", false // it has no end
}
