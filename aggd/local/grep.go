package local

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// maxPattern is the longest regular expression.
const maxPattern = 4096

// A search looks for lines.
type search struct {
	pattern *regexp.Regexp
	context int // lines shown around a match
	most    int // matches shown
}

func newSearch(pattern string, context, most int) (*search, error) {
	s := &search{context: context, most: most}
	switch {
	case pattern == "":
		return nil, errors.New("argument pattern is missing")
	case len(pattern) > maxPattern:
		return nil, fmt.Errorf("the pattern is longer than %d bytes", maxPattern)
	case s.context < 0 || s.context > 100:
		return nil, errors.New("context_lines is not between 0 and 100")
	case s.most < 1 || s.most > 10000:
		return nil, errors.New("max_matches is not between 1 and 10000")
	}
	var err error
	if s.pattern, err = regexp.Compile("(?i)" + pattern); err != nil {
		return nil, fmt.Errorf("the pattern does not compile: %w", err)
	}
	return s, nil
}

// run returns the matching lines of text with those around them, and how many
// match: counting stops where showing does.
func (s *search) run(text string) (found, count string) {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	var matches []int
	more := false
	for i, line := range lines {
		if !s.pattern.MatchString(line) {
			continue
		}
		if more = len(matches) == s.most; more {
			break
		}
		matches = append(matches, i)
	}
	count = fmt.Sprint(len(matches))
	if more {
		count += "+"
	}
	return s.excerpt(lines, matches), count
}

// excerpt shows matches, marked, with their surroundings, each line once.
func (s *search) excerpt(lines []string, matches []int) string {
	var b strings.Builder
	next := 0 // the first line not shown yet
	for m, at := range matches {
		from := max(at-s.context, next)
		if m > 0 && from > next {
			b.WriteString("---\n")
		}
		until := at + s.context
		if m+1 < len(matches) {
			until = min(until, matches[m+1]-1)
		}
		until = min(until, len(lines)-1)
		for i := from; i <= until; i++ {
			mark := "    "
			if i == at {
				mark = ">>> "
			}
			fmt.Fprintf(&b, "%s%d: %s\n", mark, i+1, lines[i])
		}
		next = until + 1
	}
	return b.String()
}
