package composite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Arguments are a value whose texts are phrases: a *phrase, a map[string]any or a
// []any of such, or anything else as it is.
type arguments any

// arguments checks the arguments of a step.
func (c *compiler) arguments(v Value, to *step, roots []string) (arguments, error) {
	text, err := c.json(v)
	if err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	if text == nil {
		return map[string]any{}, nil
	}
	if text[0] != '{' {
		return nil, fmt.Errorf("arguments: want an object")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber() // those of a definition go out as they are written
	var made any
	if err := dec.Decode(&made); err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	return c.phrases(made, "arguments", to, roots)
}

// phrases parses the texts in v, which is at path.
func (c *compiler) phrases(v any, path string, to *step, roots []string) (_ any, err error) {
	switch v := v.(type) {
	case string:
		p, err := c.phrase(v, roots, to)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return p, nil
	case []any:
		for i := range v {
			if v[i], err = c.phrases(v[i], fmt.Sprintf("%s[%d]", path, i), to, roots); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = c.phrases(v[k], fmt.Sprintf("%s.%.64s", path, k), to, roots); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// A filling makes a value of what it reads under root.
type filling struct {
	r    *run
	ctx  context.Context
	root map[string]any
	left int // bytes that the texts may still have
}

// text makes the text of one phrase.
func (f *filling) text(p *phrase) (string, error) {
	text, err := f.r.fill(f.ctx, p, f.root, min(f.left, MaxMade))
	f.left -= len(text)
	return text, err
}

// fill makes v with its texts, each of the type that the schema has there.
func (f *filling) fill(v arguments, path string, schema any) (_ any, err error) {
	of, _ := schema.(map[string]any)
	switch v := v.(type) {
	case *phrase:
		text, err := f.text(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return coerce(text, of), nil
	case []any:
		list := make([]any, len(v))
		for i := range v {
			if list[i], err = f.fill(v[i], fmt.Sprintf("%s[%d]", path, i), of["items"]); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		members, _ := of["properties"].(map[string]any)
		object := make(map[string]any, len(v))
		for k := range v {
			if object[k], err = f.fill(v[k], fmt.Sprintf("%s.%.64s", path, k), members[k]); err != nil {
				return nil, err
			}
		}
		return object, nil
	}
	return v, nil
}

// coerce makes of a text what a schema wants in its place, if that is no text and
// can be made of it.
func coerce(text string, schema map[string]any) any {
	types, _ := schema["type"].([]any)
	if one, ok := schema["type"].(string); ok {
		types = []any{one}
	}
	if slices.Contains(types, "string") {
		return text
	}
	if at := slices.Index(types, any("boolean")); at >= 0 { // last: 1 and 0 are numbers first
		types = append(slices.Delete(slices.Clone(types), at, at+1), "boolean")
	}
	for _, t := range types {
		if name, ok := t.(string); ok {
			if v, err := typed(text, name); err == nil {
				return v
			}
		}
	}
	return text
}

// typed makes a value of a type of JSON Schema of a text. Numbers, lists and
// objects stay as they are written.
func typed(text, name string) (any, error) {
	trimmed := strings.TrimSpace(text)
	switch {
	case name == "string":
		return text, nil
	case name == "boolean":
		if b, err := strconv.ParseBool(trimmed); err == nil {
			return b, nil
		}
	case name == "integer" && isNumber(trimmed) && !strings.ContainsAny(trimmed, ".eE") && len(trimmed) <= MaxDigits:
		return json.Number(trimmed), nil
	case name == "number" && isNumber(trimmed) && len(trimmed) <= MaxDigits:
		return json.Number(trimmed), nil
	case name == "object" && strings.HasPrefix(trimmed, "{") && json.Valid([]byte(trimmed)):
		return json.RawMessage(trimmed), nil
	case name == "array" && strings.HasPrefix(trimmed, "[") && json.Valid([]byte(trimmed)):
		return json.RawMessage(trimmed), nil
	case name == "null" && trimmed == "null":
		return nil, nil
	}
	return nil, fmt.Errorf("%.64q is no %s", text, name)
}
