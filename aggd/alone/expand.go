package alone

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// An expander puts variables of the environment into the texts of a file, as
// Claude's clients do: ${NAME}, and ${NAME:-TEXT} for TEXT where NAME is not set; and as
// editors do, ${env:NAME}.
// What was put in is not looked through again, and everything else stays.
type expander struct {
	env  map[string]string
	left int // bytes that all texts together may still have
}

// entry expands what can hold a variable: all that says how a server is reached.
func (x *expander) entry(e *entry) error {
	for _, field := range []struct {
		name string
		text *string
	}{{"command", &e.Command}, {"cwd", &e.Dir}, {"url", &e.URL}, {"serverUrl", &e.ServerURL}, {"httpUrl", &e.HTTPURL}} {
		if err := x.into(field.name, field.text); err != nil {
			return err
		}
	}
	for i := range e.Args {
		if err := x.into(fmt.Sprintf("args[%d]", i), &e.Args[i]); err != nil {
			return err
		}
	}
	if err := x.table("env", e.Env); err != nil {
		return err
	}
	return x.table("headers", e.Headers)
}

// table expands the values of a table.
func (x *expander) table(name string, of map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(of)) {
		text := of[key]
		x.left -= len(key)
		if err := x.into(name+" "+key, &text); err != nil {
			return err
		}
		of[key] = text
	}
	return nil
}

// into expands a text in its place.
func (x *expander) into(where string, text *string) error {
	var b strings.Builder
	rest := *text
	for x.left >= 0 {
		before, after, ok := strings.Cut(rest, "${")
		inside, next, closed := strings.Cut(after, "}")
		if !ok || !closed {
			break
		}
		value, err := "${", error(nil)
		if inside == "" || inside == "env:" {
			next = after // no name, so no variable
		} else {
			value, err = x.value(inside)
		}
		if err != nil {
			return fmt.Errorf("%.80s: %w", where, err)
		}
		b.WriteString(before)
		b.WriteString(value)
		x.left -= len(before) + len(value)
		rest = next
	}
	b.WriteString(rest)
	x.left -= len(rest)
	*text = b.String()
	return nil
}

// value returns what stands for ${inside}.
func (x *expander) value(inside string) (string, error) {
	name, otherwise, has := strings.Cut(inside, ":-")
	if strings.Contains(otherwise, "${") {
		return "", fmt.Errorf("the text behind %.64s:- has ${ in it, which it may not: write a plain text", name)
	}
	name = strings.TrimPrefix(name, "env:")
	if value, set := x.env[name]; set {
		return value, nil
	}
	if !has {
		return "", fmt.Errorf("the variable %.64s is not set: set it, or write ${%.64s:-TEXT}", name, name)
	}
	return otherwise, nil
}
