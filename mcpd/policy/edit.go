package policy

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"hutch/aggd/rawjson"
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

// of returns what is in the place of value, at the end of the path. What is matched
// goes from all texts in it, and from names of members.
func (e *edit) of(value []byte) []byte {
	if e.match == nil {
		return e.value
	}
	if rawjson.IsString(value) {
		text := rawjson.String(value)
		if !e.match.MatchString(text) {
			return value
		}
		return rawjson.Quote(e.match.ReplaceAllLiteralString(text, redacted))
	}
	out, last := []byte(nil), 0
	children, _, isObject, _ := childrenOf(value)
	names := make(map[string]bool)
	for _, c := range children {
		before := value[last:c.start]
		if isObject {
			before = e.renamed(before, names)
		}
		out = append(append(out, before...), e.of(value[c.start:c.end])...)
		last = c.end
	}
	return append(out, value[last:]...)
}

// renamed returns what stands before a member's value with what is matched gone from its
// name, which becomes none of those that the object has already.
func (e *edit) renamed(before []byte, names map[string]bool) []byte {
	quoted := nameOf(before)
	name := rawjson.String(quoted)
	is := e.match.ReplaceAllLiteralString(name, redacted)
	if is != name {
		start := bytes.IndexByte(before, '"')
		for n, as := 2, is; names[is]; n++ {
			is = fmt.Sprintf("%s %d", as, n)
		}
		before = rawjson.Splice(before, start, start+len(quoted), rawjson.Quote(is))
	}
	names[is] = true
	return before
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
	start := bytes.IndexByte(before, '"')
	end := bytes.LastIndexByte(before, '"')
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
