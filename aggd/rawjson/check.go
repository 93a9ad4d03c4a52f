package rawjson

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// How deep arrays and objects may be nested.
const (
	MaxDepth = 512   // in what must be read with care
	Deepest  = 10000 // in what encoding/json takes
)

// Errors of Check and Object; syntax errors wrap ErrSyntax, and text that is
// nested too deep ErrDepth.
var (
	ErrSyntax = errors.New("invalid JSON")
	ErrDepth  = errors.New("nested deeper than")
	ErrUTF8   = errors.New("invalid UTF-8")
	ErrType   = errors.New("not of the type asked for")

	ErrAmbiguous = errors.New("ambiguous member") // of Members
)

// Check reports what is wrong with data, which must be one JSON value in UTF-8,
// nested no deeper than MaxDepth.
func Check(data []byte) error {
	if !utf8.Valid(data) {
		return ErrUTF8
	}
	s := scanner{data: data, limit: MaxDepth}
	if err := s.value(); err != nil {
		return err
	}
	return s.end()
}

// Object checks the object data, but not its UTF-8, nested no deeper than depth,
// and calls f with each member as it comes: the name, unquoted, and where in
// data its value stands. An error of f ends it and is returned.
func Object(data []byte, depth int, f func(name []byte, start, end int) error) error {
	s := scanner{data: data, limit: depth}
	s.space()
	if s.peek() != '{' {
		return s.mistyped()
	}
	if err := s.members(f); err != nil {
		return err
	}
	return s.end()
}

// A Span is where in a text a value stands; the zero Span where there is none.
type Span struct{ Start, End int }

// Of returns the value that stands in text, or nil.
func (s Span) Of(text []byte) []byte {
	if s.End == 0 {
		return nil
	}
	return text[s.Start:s.End]
}

// Members checks the object data, nested no deeper than MaxDepth, and finds the
// members of the given names. It refuses two of the same name, and names that
// differ from a given one only in case: readers do not agree on which of them
// counts, so a policy could be told one thing and a server another.
func Members(data []byte, names []string, spans []Span) error {
	return Object(data, MaxDepth, func(name []byte, start, end int) error {
		for i, known := range names {
			if len(name) < len(known) || len(name) > 2*len(known) || !strings.EqualFold(string(name), known) {
				continue
			}
			if string(name) != known || spans[i].End != 0 {
				return fmt.Errorf("%w %s", ErrAmbiguous, Quote(string(name)))
			}
			spans[i] = Span{start, end}
			return nil
		}
		return nil
	})
}

// mistyped tells a value of another type from what is no value.
func (s *scanner) mistyped() error {
	if err := s.value(); err != nil {
		return err
	}
	if err := s.end(); err != nil {
		return err
	}
	return ErrType
}

// A scanner stands at pos in data, depth arrays and objects deep.
type scanner struct {
	data  []byte
	pos   int
	depth int
	limit int
}

func (s *scanner) syntax() error {
	if s.pos >= len(s.data) {
		return fmt.Errorf("%w: ends too early", ErrSyntax)
	}
	return fmt.Errorf("%w: unexpected %q at byte %d", ErrSyntax, s.data[s.pos], s.pos)
}

// peek returns the byte at pos, 0 at the end, which no JSON text has.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

func (s *scanner) end() error {
	s.space()
	if s.pos < len(s.data) {
		return s.syntax()
	}
	return nil
}

// value passes over one value and the space before it.
func (s *scanner) value() error {
	s.space()
	switch c := s.peek(); {
	case c == '{':
		return s.members(nil)
	case c == '[':
		return s.elements()
	case c == '"':
		return s.str()
	case c == '-' || isDigit(c):
		return s.number()
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	}
	return s.syntax()
}

func (s *scanner) word(w string) error {
	for i := range len(w) {
		if s.peek() != w[i] {
			return s.syntax()
		}
		s.pos++
	}
	return nil
}

// open passes over the bracket and reports whether it is closed at once by end.
func (s *scanner) open(end byte) (empty bool, err error) {
	if s.depth++; s.depth > s.limit {
		return false, fmt.Errorf("%w %d", ErrDepth, s.limit)
	}
	s.pos++
	s.space()
	if s.peek() == end {
		s.pos++
		s.depth--
		return true, nil
	}
	return false, nil
}

// next passes over a comma, or over end and reports that nothing comes.
func (s *scanner) next(end byte) (done bool, err error) {
	s.space()
	switch s.peek() {
	case ',':
		s.pos++
		return false, nil
	case end:
		s.pos++
		s.depth--
		return true, nil
	}
	return false, s.syntax()
}

func (s *scanner) members(f func(name []byte, start, end int) error) error {
	done, err := s.open('}')
	for !done && err == nil {
		if err = s.member(f); err != nil {
			return err
		}
		done, err = s.next('}')
	}
	return err
}

func (s *scanner) member(f func(name []byte, start, end int) error) error {
	s.space()
	if s.peek() != '"' {
		return s.syntax()
	}
	from := s.pos
	if err := s.str(); err != nil {
		return err
	}
	name := s.data[from:s.pos]
	s.space()
	if s.peek() != ':' {
		return s.syntax()
	}
	s.pos++
	s.space()
	start := s.pos
	if err := s.value(); err != nil || f == nil {
		return err
	}
	return f(unquoted(name), start, s.pos)
}

func (s *scanner) elements() error {
	done, err := s.open(']')
	for !done && err == nil {
		if err = s.value(); err != nil {
			return err
		}
		done, err = s.next(']')
	}
	return err
}

// str passes over a string.
func (s *scanner) str() error {
	for i := s.pos + 1; i < len(s.data); i++ {
		c := s.data[i]
		if c > '\\' || c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		s.pos = i + 1
		switch c {
		case '"':
			return nil
		case '\\':
			if err := s.escape(); err != nil {
				return err
			}
			i = s.pos
		default:
			s.pos = i
			return s.syntax()
		}
	}
	s.pos = len(s.data)
	return s.syntax()
}

// escape checks what follows a backslash and stops at its last byte.
func (s *scanner) escape() error {
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		for range 4 {
			s.pos++
			if !isHex(s.peek()) {
				return s.syntax()
			}
		}
		return nil
	}
	return s.syntax()
}

func (s *scanner) number() error {
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else if err := s.digits(); err != nil {
		return err
	}
	if s.peek() == '.' {
		s.pos++
		if err := s.digits(); err != nil {
			return err
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		return s.digits()
	}
	return nil
}

func (s *scanner) digits() error {
	if !isDigit(s.peek()) {
		return s.syntax()
	}
	for isDigit(s.peek()) {
		s.pos++
	}
	return nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
