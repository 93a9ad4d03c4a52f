package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"hutch/aggd/rawjson"
)

// A step of a path goes to a member of an object, to an element of a list, or,
// where it has neither, to all of them.
type step struct {
	name  string
	index int // -1: none
	all   bool
}

// errPath is what a path is written like.
var errPath = errors.New(`write it like options.limit, edits[0].path, content[*].text or ["odd name"]`)

// parsePath reads names with dots between them, and [0], [*] and ["name"].
func parsePath(text string) (path []step, err error) {
	for first := true; first || text != ""; first = false {
		s, rest, ok := parseStep(text, first)
		if !ok {
			return nil, errPath
		}
		if path, text = append(path, s), rest; len(path) > maxSteps {
			return nil, fmt.Errorf("has more than %d steps", maxSteps)
		}
	}
	return path, nil
}

// parseStep reads one, and returns what follows it.
func parseStep(text string, first bool) (s step, rest string, ok bool) {
	switch {
	case strings.HasPrefix(text, `["`):
		d := json.NewDecoder(strings.NewReader(text[1:]))
		if d.Decode(&s.name) != nil {
			return s, "", false
		}
		s.index = -1
		rest, ok = strings.CutPrefix(text[1+d.InputOffset():], "]")
		return s, rest, ok
	case strings.HasPrefix(text, "["):
		inner, rest, ok := strings.Cut(text[1:], "]")
		if s.all = inner == "*"; s.all {
			return s, rest, ok
		}
		n, err := strconv.ParseUint(inner, 10, 31)
		s.index = int(n)
		return s, rest, ok && err == nil
	case !first:
		if text, ok = strings.CutPrefix(text, "."); !ok {
			return s, "", false
		}
	}
	end := strings.IndexAny(text, `.["]*`)
	if end < 0 {
		end = len(text)
	}
	return step{name: text[:end], index: -1}, text[end:], end > 0
}

// fits tells whether the step can be made from such a value.
func (s *step) fits(isObject, isList bool) bool {
	switch {
	case s.all:
		return isObject || isList
	case s.index >= 0:
		return isList
	}
	return isObject
}

// leadsTo tells whether the step leads to the ith child of a value that it fits.
func (s *step) leadsTo(value []byte, c child, i int) bool {
	switch {
	case s.all:
		return true
	case s.index >= 0:
		return s.index == i
	}
	return rawjson.String(nameOf(value[c.from:c.start])) == s.name
}
