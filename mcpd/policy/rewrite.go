package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hutch/aggd/rawjson"
)

// What a rule may rewrite at most.
const (
	maxEdits = 64   // paths
	maxSteps = 32   // of a path
	maxMatch = 1000 // bytes of a regular expression
)

// redacted is what stands in the place of what is.
const redacted = "[redacted]"

// An edit changes what stands at a path. Its value is nil where that is removed.
type edit struct {
	path  []step
	text  string // of the path
	value []byte
	set   bool           // also where there is nothing yet
	match *regexp.Regexp // what goes of a text, which is all that is changed then; nil: the value
}

// of returns what is in the place of value, at the end of the path.
func (e *edit) of(value []byte) []byte {
	if e.match == nil {
		return e.value
	}
	text := rawjson.String(value)
	if !rawjson.IsString(value) || !e.match.MatchString(text) {
		return value
	}
	return rawjson.Quote(e.match.ReplaceAllLiteralString(text, redacted))
}

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
	rest := text
	for first := true; first || rest != ""; first = false {
		var s step
		switch {
		case strings.HasPrefix(rest, `["`):
			d := json.NewDecoder(strings.NewReader(rest[1:]))
			if d.Decode(&s.name) != nil {
				return nil, errPath
			}
			rest, s.index = rest[1+d.InputOffset():], -1
			if !strings.HasPrefix(rest, "]") {
				return nil, errPath
			}
			rest = rest[1:]
		case strings.HasPrefix(rest, "["):
			inner, after, ok := strings.Cut(rest[1:], "]")
			if !ok {
				return nil, errPath
			}
			rest = after
			if s.all = inner == "*"; !s.all {
				n, err := strconv.ParseUint(inner, 10, 31)
				if err != nil {
					return nil, errPath
				}
				s.index = int(n)
			}
		default:
			if !first {
				if rest[0] != '.' {
					return nil, errPath
				}
				rest = rest[1:]
			}
			end := strings.IndexAny(rest, `.["]*`)
			if end < 0 {
				end = len(rest)
			}
			if end == 0 {
				return nil, errPath
			}
			s.name, s.index, rest = rest[:end], -1, rest[end:]
		}
		if path = append(path, s); len(path) > maxSteps {
			return nil, fmt.Errorf("has more than %d steps", maxSteps)
		}
	}
	return path, nil
}

// compileEdits compiles what a rule rewrites, in the order in which it is done:
// removed, redacted, set.
func compileEdits(r Rule) ([]edit, *Fault) {
	var edits []edit
	add := func(key, path string, e edit) *Fault {
		var err error
		if e.path, err = parsePath(path); err != nil {
			return &Fault{Of: r.ID, Key: key, Text: fmt.Sprintf("%.64q is no path: %v", path, err)}
		}
		e.text = path
		if edits = append(edits, e); len(edits) > maxEdits {
			return &Fault{Of: r.ID, Key: key, Text: fmt.Sprintf("has more than %d paths with the others: make two rules of it", maxEdits)}
		}
		return nil
	}
	for _, path := range r.Remove {
		if f := add("remove", path, edit{}); f != nil {
			return nil, f
		}
	}
	match, fault := compileMatch(r)
	if fault != nil {
		return nil, fault
	}
	for _, path := range r.Redact {
		if f := add("redact", path, edit{value: rawjson.Quote(redacted), match: match}); f != nil {
			return nil, f
		}
	}
	for _, path := range slices.Sorted(maps.Keys(r.Set)) {
		value, err := rawjson.Encode(r.Set[path])
		if f, isFloat := r.Set[path].(float64); err != nil || isFloat && math.IsInf(f, 0) {
			return nil, &Fault{Of: r.ID, Key: "set", Text: fmt.Sprintf("%.64q is set to what JSON has not", path)}
		}
		if f := add("set", path, edit{value: value, set: true}); f != nil {
			return nil, f
		}
	}
	return edits, nil
}

// compileMatch compiles what a rule looks for in texts, nil if that is nothing.
func compileMatch(r Rule) (*regexp.Regexp, *Fault) {
	wrong := func(format string, a ...any) (*regexp.Regexp, *Fault) {
		return nil, &Fault{Of: r.ID, Key: "match", Text: fmt.Sprintf(format, a...)}
	}
	switch {
	case r.Match == "":
		return nil, nil
	case len(r.Redact) == 0:
		return wrong("says what is redacted of a text: say in redact which texts")
	case len(r.Match) > maxMatch:
		return wrong("has %d bytes, at most %d", len(r.Match), maxMatch)
	}
	match, err := regexp.Compile(r.Match)
	if err != nil {
		return wrong("is no regular expression: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return match, nil
}

// apply makes the edits in text, whose other bytes stay as they are.
func apply(edits []edit, text []byte) ([]byte, error) {
	if len(text) == 0 {
		text = []byte("{}")
	}
	for _, e := range edits {
		next, err := e.in(text, e.path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.text, err)
		}
		text = next
	}
	return text, nil
}

// A child is a member of an object or an element of a list: where it begins,
// with its name, and where its value stands.
type child struct{ from, start, end int }

// in returns value, in which the rest of the path is followed.
func (e *edit) in(value []byte, path []step) ([]byte, error) {
	if len(path) == 0 {
		return e.of(value), nil
	}
	s := path[0]
	children, open, isObject, isList := childrenOf(value)
	if !s.fits(isObject, isList) {
		if e.set {
			return nil, errors.New("there is another kind of value on the way")
		}
		return value, nil
	}
	leads := func(i int) bool { return s.leadsTo(value, children[i], i) }
	if len(path) == 1 && e.value == nil {
		return without(value, children, open, leads), nil
	}
	out, last := []byte(nil), 0
	for i, c := range children {
		if !leads(i) {
			continue
		}
		put, err := e.in(value[c.start:c.end], path[1:])
		if err != nil {
			return nil, err
		}
		out = append(append(out, value[last:c.start]...), put...)
		last = c.end
	}
	switch {
	case last > 0:
		return append(out, value[last:]...), nil
	case !e.set || s.all:
		return value, nil
	case s.index >= 0:
		return nil, fmt.Errorf("the list has no element %d", s.index)
	}
	return e.insert(value, children, open, path)
}

// insert returns an object with a member that it did not have, in which the rest
// of the path is followed.
func (e *edit) insert(value []byte, children []child, open int, path []step) ([]byte, error) {
	put := e.value
	if len(path) > 1 {
		var err error
		if put, err = e.in([]byte("{}"), path[1:]); err != nil {
			return nil, err
		}
	}
	member := append(append(rawjson.Quote(path[0].name), ':'), put...)
	at := open
	if len(children) > 0 {
		at = children[len(children)-1].end
		member = append([]byte(","), member...)
	}
	return rawjson.Splice(value, at, at, member), nil
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

// childrenOf returns what an object or a list holds, and where its first would
// begin.
func childrenOf(value []byte) (children []child, open int, isObject, isList bool) {
	open = 1
	for open <= len(value) && open > 0 && strings.IndexByte(" \t\r\n", value[open-1]) >= 0 {
		open++
	}
	if open > len(value) {
		return nil, 0, false, false
	}
	switch value[open-1] {
	case '{':
		from := open
		rawjson.Walk(value, func(_ []byte, start, end int) {
			children = append(children, child{from, start, end})
			from = end
		})
		return children, open, true, false
	case '[':
		elements := rawjson.Elements(value)
		for _, e := range elements {
			start := cap(value) - cap(e) // e is a piece of value
			children = append(children, child{start, start, start + len(e)})
		}
		return children, open, false, true
	}
	return nil, 0, false, false
}

// nameOf returns the quoted name in what stands before a member's value.
func nameOf(before []byte) []byte {
	start := strings.IndexByte(string(before), '"')
	end := strings.LastIndexByte(string(before), '"')
	if start < 0 || end <= start {
		return nil
	}
	return before[start : end+1]
}

// without returns value without some of its children, and without the commas
// that went with them.
func without(value []byte, children []child, open int, is func(int) bool) []byte {
	if len(children) == 0 {
		return value
	}
	out := append([]byte(nil), value[:open]...)
	kept := 0
	for i, c := range children {
		if is(i) {
			continue
		}
		from := open // with the space or the comma before it
		if i > 0 {
			from = children[i-1].end
		}
		piece := value[from:c.end]
		if comma := strings.IndexByte(string(value[from:c.start]), ','); kept == 0 && i > 0 && comma >= 0 {
			piece = value[from+comma+1 : c.end]
		}
		out = append(out, piece...)
		kept++
	}
	return append(out, value[children[len(children)-1].end:]...)
}

// hasArguments are the requests that have arguments, if not always.
var hasArguments = map[string]bool{"tools/call": true, "prompts/get": true}

// rewrite makes of e what a rule says. That has to pass what e had to pass until
// then: the checks before the rules, and the rules before this one as far as
// they block or ask. It returns what refuses it, nil if nothing does.
func (p *Policy) rewrite(e *Event, by *rule) *Decision {
	if e.Listing || e.On == OnRequest && !hasArguments[e.Method] {
		return nil
	}
	refused := func(err error) *Decision {
		return &Decision{Action: Block, Rule: by.ID, Layer: by.Layer, Reason: fmt.Sprintf("the rewrite of the rule cannot be made: %v", err)}
	}
	changed := *e
	changed.seen.values = nil
	text := &changed.Args
	if e.On == OnResponse {
		text = &changed.Answer
	}
	rewritten, err := apply(by.edits, *text)
	if err == nil && e.On == OnRequest {
		err = rawjson.Unique(rewritten) // {"Limit":9} with limit set is two things
	}
	if err == nil && e.On == OnRequest {
		err = fits(e.Schema, rewritten)
	}
	switch {
	case err != nil:
		return refused(err)
	case len(*text) > 0 && bytes.Equal(rewritten, *text):
		return nil
	}
	*text = rewritten
	for _, check := range []func(*Policy, *Event) *Decision{(*Policy).tryDeny, (*Policy).tryCapabilities, (*Policy).tryCedar} {
		if d := check(p, &changed); d != nil && d.Action == Block {
			return d
		}
	}
	for _, r := range p.byEvent[e.On] {
		if r == by {
			break
		}
		if r.Server != "" && r.Server != e.Server || r.Decision == Rewrite {
			continue
		}
		holds, reason, err := r.holds(&changed)
		if err != nil {
			return refused(err)
		}
		if holds && r.Decision == Allow {
			break
		}
		if holds {
			return &Decision{Action: r.Decision, Rule: r.ID, Layer: r.Layer, Reason: reason, Code: r.code}
		}
	}
	if changed.rewritten == nil {
		changed.rewritten = &Decision{Action: Rewrite, Rule: by.ID, Layer: by.Layer, Reason: by.reason()}
	}
	changed.rewritten.Rewritten = rewritten
	changed.seen.values = nil
	*e = changed
	return nil
}

// asRewritten returns a decision about e that goes on with what rules have made of
// it.
func (e *Event) asRewritten(d Decision) Decision {
	switch {
	case e.rewritten == nil || d.Action == Block:
	case d.Action == Allow && d.Would == "":
		return *e.rewritten
	default:
		d.Rewritten = e.rewritten.Rewritten
	}
	return d
}
