package composite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// An output is an Output that was checked.
type output struct {
	properties map[string]*property
	required   []string
	reads      []read
}

type property struct {
	kind        string
	description string
	value       *phrase // nil: an object of properties
	properties  map[string]*property
	fallback    any
	hasFallback bool
}

// types are those that a property may have.
var types = []string{"string", "integer", "number", "boolean", "object", "array"}

// output checks an Output.
func (c *compiler) output(from *Output) (*output, error) {
	if from == nil {
		return nil, nil
	}
	if len(from.Properties) == 0 {
		return nil, errors.New("properties: want one at least")
	}
	o := &output{required: from.Required}
	var err error
	if o.properties, err = c.properties(from.Properties, o, 1); err != nil {
		return nil, err
	}
	for _, name := range from.Required {
		if o.properties[name] == nil {
			return nil, fmt.Errorf("required: there is no property %.64q", name)
		}
	}
	return o, nil
}

func (c *compiler) properties(from map[string]Property, o *output, level int) (map[string]*property, error) {
	if level > MaxProperties {
		return nil, fmt.Errorf("properties are more than %d deep in each other", MaxProperties)
	}
	to := make(map[string]*property, len(from))
	for _, name := range slices.Sorted(maps.Keys(from)) { // so that the same error comes each time
		p, err := c.property(from[name], o, level)
		if err != nil {
			return nil, fmt.Errorf("%.64s: %w", name, err)
		}
		to[name] = p
	}
	return to, nil
}

func (c *compiler) property(from Property, o *output, level int) (*property, error) {
	switch {
	case !slices.Contains(types, from.Type):
		return nil, fmt.Errorf("type: %.40q: want string, integer, number, boolean, object or array", from.Type)
	case len(from.Description) > MaxText:
		return nil, fmt.Errorf("description: %d bytes, at most %d", len(from.Description), MaxText)
	case (from.Value != "") == (from.Properties != nil):
		return nil, errors.New("want either a value or properties")
	case from.Properties != nil && from.Type != "object":
		return nil, fmt.Errorf("properties: a property of the type %s has none", from.Type)
	}
	p := &property{kind: from.Type, description: from.Description}
	var err error
	if err := c.fallback(from, p); err != nil {
		return nil, fmt.Errorf("default: %w", err)
	}
	if from.Properties != nil {
		p.properties, err = c.properties(from.Properties, o, level+1)
		return p, err
	}
	if p.value, err = parsePhrase(from.Value, roots); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	for _, r := range p.value.reads {
		if p.hasFallback { // then what is not there is no mistake
			r.field = ""
		}
		o.reads = append(o.reads, r)
	}
	return p, nil
}

// fallback checks the default of a property, which may also be written as a text.
func (c *compiler) fallback(from Property, p *property) error {
	text, err := c.json(from.Default)
	if err != nil || text == nil {
		return err
	}
	var s string
	if json.Unmarshal(text, &s) != nil {
		s = string(text)
	}
	p.fallback, err = typed(s, from.Type)
	p.hasFallback = true
	return err
}

// schema returns the JSON Schema of what the output makes.
func (o *output) schema() map[string]any {
	s := schemaOf(o.properties)
	if len(o.required) > 0 {
		s["required"] = o.required
	}
	return s
}

func schemaOf(properties map[string]*property) map[string]any {
	all := make(map[string]any, len(properties))
	for name, p := range properties {
		s := map[string]any{"type": p.kind}
		if p.properties != nil {
			s = schemaOf(p.properties)
		}
		if p.description != "" {
			s["description"] = p.description
		}
		all[name] = s
	}
	return map[string]any{"type": "object", "properties": all}
}

// make makes the output of what the steps of a run gave.
func (o *output) make(ctx context.Context, r *run) (map[string]any, error) {
	f := &filling{r: r, ctx: ctx, root: r.root(nil), left: MaxResults}
	made, err := f.properties(o.properties)
	if err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	for _, name := range o.required {
		if made[name] == nil {
			return nil, fmt.Errorf("output: %.64s: it is required, and has no value", name)
		}
	}
	return made, nil
}

func (f *filling) properties(of map[string]*property) (map[string]any, error) {
	made := make(map[string]any, len(of))
	for _, name := range slices.Sorted(maps.Keys(of)) {
		v, err := f.property(of[name])
		if err != nil {
			return nil, fmt.Errorf("%.64s: %w", name, err)
		}
		if v != nil {
			made[name] = v
		}
	}
	return made, nil
}

// property makes the value of one, or takes its default. It is nil where the template
// has no value: servers leave out what they do not have, or say null.
func (f *filling) property(p *property) (v any, err error) {
	if p.properties != nil {
		v, err = f.properties(p.properties)
	} else {
		var text string
		text, err = f.text(p.value)
		switch {
		case isNone(err):
			err = nil
		case err == nil && (p.kind == "string" || strings.TrimSpace(text) != "null"):
			v, err = typed(text, p.kind)
		}
	}
	if (err != nil || v == nil) && p.hasFallback && f.ctx.Err() == nil {
		return p.fallback, nil
	}
	return v, err
}
