package profiles

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// A key is the way to a value in a profile.
type key []string

// with returns the key of name in k.
func (k key) with(name string) key { return append(k[:len(k):len(k)], name) }

// A fault is what is wrong with a profile and where.
type fault struct {
	key  key
	line int
	text string
}

func (f *fault) Error() string {
	return fmt.Sprintf("line %d: %s", f.line, strings.Join(strings.Fields(f.text), " "))
}

func (k key) faultf(format string, a ...any) *fault {
	return &fault{key: k, text: fmt.Sprintf(format, a...)}
}

// decode reads TOML. Its errors are faults.
func decode(text []byte, f *file) error {
	err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(f)
	if err == nil {
		return nil
	}
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) && len(unknown.Errors) > 0 {
		e := &unknown.Errors[0]
		line, _ := e.Position()
		return &fault{line: line, text: unknownKey(key(e.Key()))}
	}
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		line, _ := bad.Position()
		return &fault{line: line, text: explain(bad)}
	}
	return &fault{line: 1, text: strings.TrimPrefix(err.Error(), "toml: ")}
}

// wants tells in words what Go's types are written as.
var wants = []struct{ target, words string }{
	{"profiles.size", `a size in quotes like "512MiB"`},
	{"profiles.duration", `a time in quotes like "30s"`},
	{"[]string", `a list like ["a", "b"]`},
	{"map[", "a table"},
	{"bool", "true or false"},
	{"int", "a number"},
	{"float", "a number"},
	{"string", "a text in quotes"},
	{"profiles.", "a table"},
}

// explain returns the text of an error of the decoder's, without its words
// for Go's types.
func explain(e *toml.DecodeError) string {
	text := strings.TrimPrefix(e.Error(), "toml: ")
	if at := strings.LastIndex(text, " of type "); at >= 0 && strings.HasPrefix(text, "cannot ") {
		return mismatch(e, text[at+len(" of type "):])
	}
	if _, target, ok := strings.Cut(text, " into "); ok && strings.HasPrefix(text, "cannot ") {
		return mismatch(e, target)
	}
	if _, target, ok := strings.Cut(text, "cannot store a table in a "); ok {
		return mismatch(e, target)
	}
	if k := e.Key(); len(k) > 0 {
		return strings.Join(k, ".") + ": " + text
	}
	return text
}

func mismatch(e *toml.DecodeError, target string) string {
	k := strings.Join(e.Key(), ".")
	for _, w := range wants {
		if strings.Contains(target, w.target) {
			return fmt.Sprintf("%s: write %s", k, w.words)
		}
	}
	return k + ": the value is of the wrong kind"
}

// unknownKey returns what to do about a key that means nothing.
func unknownKey(k key) string {
	known := known(reflect.TypeFor[file](), k)
	name := k[len(k)-1]
	text := fmt.Sprintf("unknown key %q", shorten(strings.Join(k, ".")))
	for _, other := range known {
		if near(strings.ToLower(name), strings.ToLower(other)) {
			return fmt.Sprintf("%s: did you mean %q?", text, other)
		}
	}
	return text + ": remove it; known here are " + strings.Join(known, " ")
}

// known returns the keys that may stand beside the last one of k, of those
// that t has.
func known(t reflect.Type, k key) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		name := f.Tag.Get("toml")
		if name == "" {
			continue
		}
		if len(k) == 1 {
			names = append(names, name)
			continue
		}
		if name != k[0] {
			continue
		}
		rest, inner := k[1:], f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Map && len(rest) > 1 {
			rest, inner = rest[1:], inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			return known(inner, rest)
		}
	}
	return names
}

// near tells whether one letter more, less or different makes b of a, or two
// that changed places.
func near(a, b string) bool {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return len(a) <= 1 && len(b) <= 1 || len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
}

// lineOf returns the line where the value of k is set or, failing that, of
// what holds it.
func lineOf(text []byte, k key) int {
	line, depth := 1, 0
	var p unstable.Parser
	p.Reset(text)
	var table key
	for p.NextExpression() {
		e := p.Expression()
		here, at := key(nil), 0
		for it := e.Key(); it.Next(); {
			n := it.Node()
			if at == 0 {
				at = p.Shape(n.Raw).Start.Line
			}
			here = append(here, string(n.Data))
		}
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = here
		case unstable.KeyValue:
			here = append(table[:len(table):len(table)], here...)
		default:
			continue
		}
		if n := common(here, k); n > depth {
			line, depth = at, n
		}
	}
	return line
}

// common returns how many elements a and b have in common from the start.
func common(a, b key) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
