package rawjson

import (
	"bytes"
	"fmt"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Unique checks data, which must be one JSON value, nested no deeper than
// MaxDepth, and refuses two members of the same name in one object: readers do
// not agree on which of them counts. In the outermost object names that differ
// only in case are the same, too, as some readers take one for the other.
func Unique(data []byte) error { return checkNames(data, 1) }

// Distinct is Unique where names that differ only in case are the same in every
// object: encoding/json takes argſ for args at any depth.
func Distinct(data []byte) error { return checkNames(data, MaxDepth) }

// checkNames checks data; names are folded in the outermost objects, so many deep.
func checkNames(data []byte, folding int) error {
	u := uniques.Get().(*unique)
	u.scanner, u.names, u.folding = scanner{data: data, limit: MaxDepth}, u.names[:0], folding
	defer func() {
		u.data = nil
		uniques.Put(u)
	}()
	if err := u.value(); err != nil {
		return err
	}
	return u.end()
}

// uniques are kept for their lists of names.
var uniques = sync.Pool{New: func() any { return new(unique) }}

// A unique scanner keeps the names of the members of the objects that it stands
// in, the innermost last.
type unique struct {
	scanner
	names   []Span // with their quotes
	folding int    // how many objects and arrays deep names are folded
}

func (u *unique) value() error {
	u.space()
	switch u.peek() {
	case '{':
		return u.members()
	case '[':
		return u.elements()
	}
	return u.scanner.value()
}

func (u *unique) elements() error {
	done, err := u.open(']')
	for !done && err == nil {
		if err = u.value(); err != nil {
			return err
		}
		done, err = u.next(']')
	}
	return err
}

func (u *unique) members() error {
	fold := u.depth < u.folding
	first := len(u.names)
	var many map[string]bool // of the names, where they are too many to compare
	done, err := u.open('}')
	for !done && err == nil {
		at, err := u.name()
		if err != nil {
			return err
		}
		if len(u.names)-first == manyNames && many == nil {
			many = make(map[string]bool)
			for _, n := range u.names[first:] {
				many[folded(u.text(n), fold)] = true
			}
		}
		name := u.text(at)
		if many != nil {
			key := folded(name, fold)
			if many[key] {
				return fmt.Errorf("%w %s", ErrAmbiguous, Quote(string(name)))
			}
			many[key] = true
		} else if u.known(name, first, fold) {
			return fmt.Errorf("%w %s", ErrAmbiguous, Quote(string(name)))
		} else {
			u.names = append(u.names, at)
		}
		if err = u.value(); err != nil {
			return err
		}
		if done, err = u.next('}'); err != nil {
			return err
		}
	}
	u.names = u.names[:first]
	return err
}

// manyNames is how many names are compared one by one.
const manyNames = 16

// name passes over a member's name and the colon, and returns where it stands.
func (u *unique) name() (at Span, err error) {
	u.space()
	if u.peek() != '"' {
		return at, u.syntax()
	}
	at.Start = u.pos
	if err := u.str(); err != nil {
		return at, err
	}
	at.End = u.pos
	u.space()
	if u.peek() != ':' {
		return at, u.syntax()
	}
	u.pos++
	return at, nil
}

// text returns the name that stands there, as it is decoded.
func (u *unique) text(at Span) []byte {
	name := unquoted(at.Of(u.data))
	if !utf8.Valid(name) {
		name = bytes.ToValidUTF8(name, []byte(string(utf8.RuneError)))
	}
	return name
}

// known tells whether one of the names from first on is name.
func (u *unique) known(name []byte, first int, fold bool) bool {
	for _, at := range u.names[first:] {
		if n := u.text(at); bytes.Equal(n, name) || fold && bytes.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// folded returns a name so that those that are the same are equal.
func folded(name []byte, fold bool) string {
	if !fold {
		return string(name)
	}
	return string(bytes.Map(least, name))
}

// least returns the first of the characters that differ from r only in case.
func least(r rune) rune {
	for {
		next := unicode.SimpleFold(r)
		if next <= r {
			return next
		}
		r = next
	}
}
