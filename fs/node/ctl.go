package node

import (
	"fmt"
	"strings"
)

// A Verb is a row of a table of control messages.
type Verb[T any] struct {
	Name     string
	Args     string // the arguments as the manual shows them: "K V", "[all]", "WORDS…", "LINE"
	Min, Max int    // how many words may follow; Max < 0: any number
	Raw      bool   // the rest of the line is the one argument, unquoted
	Doc      string // one line for the README
	Do       func(c Call[T], args []string) error
}

// Run finds the verb of message m, checks its words and does it. A message
// that is empty or starts with # does nothing.
func Run[T any](verbs []Verb[T], c Call[T], m string) error {
	trimmed := strings.TrimLeft(m, " \t")
	if trimmed == "" || trimmed[0] == '#' {
		return nil
	}
	name, rest, _ := strings.Cut(trimmed, " ")
	for i := range verbs {
		if v := &verbs[i]; v.Raw && v.Name == name {
			if rest = strings.TrimSpace(rest); rest == "" {
				return v.wrong(m)
			}
			return v.Do(c, []string{rest})
		}
	}
	words, err := Words(m)
	if err != nil {
		return fmt.Errorf("%w in control message %q", err, shorten(m))
	}
	for i := range verbs {
		if v := &verbs[i]; v.Name == words[0] && !v.Raw {
			if n := len(words) - 1; n < v.Min || v.Max >= 0 && n > v.Max {
				return v.wrong(m)
			}
			return v.Do(c, words[1:])
		}
	}
	return fmt.Errorf("%w: unknown control message %q", ErrInvalid, shorten(m))
}

func (v *Verb[T]) wrong(m string) error {
	return fmt.Errorf("%w: wrong number of words in control message %q: want %q", ErrInvalid,
		shorten(m), strings.TrimSpace(v.Name+" "+v.Args))
}

// Admits says whether part, an unfinished message, can become one of verbs.
func Admits[T any](verbs []Verb[T], part string) bool {
	part = strings.TrimLeft(part, " \t")
	if part == "" || part[0] == '#' || part[0] == '\'' {
		return true
	}
	name, _, whole := strings.Cut(part, " ")
	for i := range verbs {
		if verbs[i].Name == name || !whole && strings.HasPrefix(verbs[i].Name, name) {
			return true
		}
	}
	return false
}

// Words splits a control message as rc does: words are separated by blanks;
// between single quotes everything is literal, and ” is one quote.
func Words(m string) ([]string, error) {
	var words []string
	var b strings.Builder
	in, quoted := false, false
	for i := 0; i < len(m); i++ {
		switch c := m[i]; {
		case quoted && c == '\'' && i+1 < len(m) && m[i+1] == '\'':
			b.WriteByte('\'')
			i++
		case c == '\'':
			quoted, in = !quoted, true
		case quoted || c != ' ' && c != '\t':
			b.WriteByte(c)
			in = true
		case in:
			words = append(words, b.String())
			b.Reset()
			in = false
		}
	}
	if quoted {
		return nil, fmt.Errorf("%w: quote not closed", ErrInvalid)
	}
	if in {
		words = append(words, b.String())
	}
	return words, nil
}

// Quote returns s as one word of a control message.
func Quote(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t'#") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// shorten cuts a message for an error text.
func shorten(m string) string {
	if len(m) > 60 {
		return m[:60] + "…"
	}
	return m
}
