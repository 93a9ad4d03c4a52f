package fs

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// A Verb is a row of a table of control messages.
type Verb[T any] struct {
	Name     string
	Args     string // the arguments as the manual shows them: "K V", "[all]", "WORDS…", "LINE"
	Min, Max int    // how many words may follow; Max < 0: any number
	Raw      bool   // the rest of the line is the one argument, unquoted
	Shell    bool   // Raw, and a shell reads it
	Lines    string // how a message has several lines, for who leaves its quotes to a shell
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
	name, rest := CutBlank(trimmed)
	if v := find(verbs, name); v != nil && v.Raw {
		if rest = strings.TrimSpace(rest); rest == "" {
			return v.wrong(m)
		}
		return v.Do(c, []string{rest})
	}
	words, err := Words(m)
	if err != nil {
		return fmt.Errorf("%w in control message %q", err, Shorten(m))
	}
	v := find(verbs, words[0])
	if v == nil || v.Raw {
		u := unknown{message: m}
		for i := range verbs {
			u.known = append(u.known, verbs[i].Name)
		}
		return fmt.Errorf("%w: %w", ErrInvalid, u)
	}
	if n := len(words) - 1; n < v.Min || v.Max >= 0 && n > v.Max {
		return v.wrong(m)
	}
	return v.Do(c, words[1:])
}

// find returns the verb of that name, or nil.
func find[T any](verbs []Verb[T], name string) *Verb[T] {
	for i := range verbs {
		if verbs[i].Name == name {
			return &verbs[i]
		}
	}
	return nil
}

// unknown is a message that begins with no verb, and those that are known.
type unknown struct {
	message string
	known   []string
}

func (u unknown) Error() string {
	text := fmt.Sprintf("unknown control message %q", Shorten(u.message))
	if len(u.known) > 0 {
		text += "; known: " + strings.Join(u.known, " ")
	}
	return text
}

// hinting returns do with a hint in the error of an unknown message: it may be
// the second line of the message before it, so the error says how a message of
// that verb has several lines.
func hinting[T any](verbs []Verb[T], do func(ctx context.Context, m string) error) func(context.Context, string) error {
	how := ""
	return func(ctx context.Context, m string) error {
		err := do(ctx, m)
		if u := (unknown{}); errors.As(err, &u) {
			if how != "" {
				err = fmt.Errorf("%w: %w: %s", ErrInvalid, unknown{message: u.message}, how)
			}
			return err
		}
		name, _ := CutBlank(strings.TrimLeft(m, " \t"))
		if v := find(verbs, name); v != nil {
			how = v.Lines
		}
		return err
	}
}

func (v *Verb[T]) wrong(m string) error {
	return fmt.Errorf("%w: wrong number of words in control message %q: want %q", ErrInvalid,
		Shorten(m), strings.TrimSpace(v.Name+" "+v.Args))
}

// Admits says whether part, an unfinished message, can become one of verbs by
// more than its newline: a verb that takes no words and is no other's beginning
// is all there is to say.
func Admits[T any](verbs []Verb[T], part string) bool {
	part = strings.TrimLeft(part, " \t")
	if part == "" || part[0] == '#' || part[0] == '\'' {
		return true
	}
	name, _ := CutBlank(part)
	whole := len(name) < len(part)
	for i := range verbs {
		v := &verbs[i]
		if v.Name == name && (v.Raw || v.Max != 0 || whole) || !whole && v.Name != name && strings.HasPrefix(v.Name, name) {
			return true
		}
	}
	return false
}

// argsOf says what follows the first word of a message.
func argsOf[T any](verbs []Verb[T], name string) place {
	switch v := find(verbs, name); {
	case v == nil || !v.Raw:
		return inWords
	case v.Shell:
		return inShell
	}
	return inLine
}

// CutBlank returns the first word of s, and what follows the blank behind it.
func CutBlank(s string) (word, rest string) {
	if i := strings.IndexAny(s, " \t"); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, ""
}
