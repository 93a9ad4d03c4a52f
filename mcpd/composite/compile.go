package composite

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"hutch/mcpd/policy"
)

// A Tool is a composite tool that can be run, by any number of callers at once.
type Tool struct {
	name        string
	description string
	parameters  json.RawMessage // a JSON Schema
	defaults    map[string]any  // of the parameters
	timeout     time.Duration
	steps       []*step // each after those that it waits for
	output      *output // nil: what the last step gave
	annotations *Annotations
}

// Name returns the name of the tool.
func (t *Tool) Name() string { return t.name }

// Tools returns the names of the tools that the steps call, sorted.
func (t *Tool) Tools() []string {
	var names []string
	for _, s := range t.steps {
		if tool := s.calls(); tool != "" {
			names = append(names, tool)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var (
	toolName  = regexp.MustCompile(`^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$`)
	stepID    = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	reference = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]*$`)
	variable  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// A compiler makes a tool of a definition.
type compiler struct {
	known func(tool string) bool
	left  int // bytes of JSON that its values may still have
}

// Compile checks a definition and makes a tool of it, or tells which step cannot
// work and why. known says whether there is a tool of a name; nil: nobody knows yet.
func Compile(d *Definition, known func(tool string) bool) (*Tool, error) {
	c := &compiler{known: known, left: MaxDefinition}
	t, err := c.tool(d)
	if err != nil {
		return nil, fmt.Errorf("composite tool %.64q: %w", d.Name, err)
	}
	return t, nil
}

func (c *compiler) tool(d *Definition) (*Tool, error) {
	switch {
	case len(d.Name) > MaxName || !toolName.MatchString(d.Name):
		return nil, fmt.Errorf("name: want at most %d of a-z, 0-9, _ and -, neither of these two at an end", MaxName)
	case d.Description == "":
		return nil, errors.New("description: say what the tool does")
	case len(d.Description) > MaxText:
		return nil, fmt.Errorf("description: %d bytes, at most %d", len(d.Description), MaxText)
	case len(d.Steps) == 0:
		return nil, errors.New("steps: want one at least")
	case len(d.Steps) > MaxSteps:
		return nil, fmt.Errorf("steps: there are %d, at most %d", len(d.Steps), MaxSteps)
	}
	t := &Tool{name: d.Name, description: d.Description, annotations: d.Annotations}
	var err error
	if t.timeout, err = duration(d.Timeout, DefaultTimeout); err != nil {
		return nil, fmt.Errorf("timeout: %w", err)
	}
	if err := c.parameters(d, t); err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	for i := range d.Steps {
		s, err := c.step(&d.Steps[i])
		if err != nil {
			return nil, fmt.Errorf("step %s: %w", stepName(&d.Steps[i], i), err)
		}
		t.steps = append(t.steps, s)
	}
	if t.steps, err = sorted(t.steps); err != nil {
		return nil, err
	}
	if t.output, err = c.output(d.Output); err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	return t, checkReads(t)
}

// stepName names a step in an error.
func stepName(s *Step, i int) string {
	if s.ID == "" {
		return fmt.Sprintf("number %d", i+1)
	}
	return fmt.Sprintf("%.64q", s.ID)
}

// duration checks a time limit.
func duration(d Duration, otherwise time.Duration) (time.Duration, error) {
	switch v := time.Duration(d); {
	case v < 0:
		return 0, fmt.Errorf("%v is less than nothing", v)
	case v > MaxTimeout:
		return 0, fmt.Errorf("%v is more than %v", v, MaxTimeout)
	case v > 0:
		return v, nil
	}
	return otherwise, nil
}

// json returns a value as JSON, within what the definition has left.
func (c *compiler) json(v Value) (json.RawMessage, error) {
	text, err := v.JSON(c.left)
	c.left -= len(text)
	return text, err
}

func (c *compiler) parameters(d *Definition, t *Tool) error {
	text, err := c.json(d.Parameters)
	if err != nil {
		return err
	}
	if text == nil {
		text = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	var schema struct {
		Type       any
		Properties map[string]any
	}
	if err := json.Unmarshal(text, &schema); err != nil || schema.Type != "object" {
		return errors.New(`want a JSON Schema of type "object"`)
	}
	if err := policy.CheckSchema(text); err != nil {
		return err
	}
	t.parameters, t.defaults = text, map[string]any{}
	whole, err := decode(text)
	if err != nil {
		return err
	}
	properties, _ := whole.(map[string]any)["properties"].(map[string]any)
	for name, p := range properties {
		if p, ok := p.(map[string]any); ok && p["default"] != nil {
			t.defaults[name] = p["default"]
		}
	}
	return nil
}

// schema returns a value that is a JSON Schema, nil where there is none.
func (c *compiler) schema(v Value) (json.RawMessage, error) {
	text, err := c.json(v)
	if err != nil || text == nil {
		return nil, err
	}
	return text, policy.CheckSchema(text)
}

// object returns a value that is an object, nil where there is none.
func (c *compiler) object(v Value) (map[string]any, error) {
	text, err := c.json(v)
	if err != nil || text == nil {
		return nil, err
	}
	made, err := decode(text)
	if err != nil {
		return nil, err
	}
	object, ok := made.(map[string]any)
	if !ok {
		return nil, errors.New("want an object")
	}
	return object, nil
}
