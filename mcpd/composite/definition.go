package composite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"go.yaml.in/yaml/v3"
)

// A Definition is a composite tool as it is written. It decodes from YAML, alone
// or as part of a larger document; what it says is checked by Compile.
type Definition struct {
	Name        string       `yaml:"name"`
	Description string       `yaml:"description"`
	Parameters  Value        `yaml:"parameters"` // JSON Schema of an object; not there: no parameters
	Timeout     Duration     `yaml:"timeout"`    // of a whole run; 0: DefaultTimeout
	Steps       []Step       `yaml:"steps"`
	Output      *Output      `yaml:"output"` // nil: what the last step gave
	Annotations *Annotations `yaml:"annotations"`
}

// A Step is one of the things that a composite tool does. Which of the fields
// may be set is said by its type.
type Step struct {
	ID             string   `yaml:"id"`
	Type           string   `yaml:"type"` // "tool" or "", "elicitation", "forEach"
	Condition      string   `yaml:"condition"`
	DependsOn      []string `yaml:"dependsOn"`
	OnError        *OnError `yaml:"onError"`
	Timeout        Duration `yaml:"timeout"`        // with its retries; 0: DefaultStepTimeout
	DefaultResults Value    `yaml:"defaultResults"` // its output where it is skipped or failed

	Tool      string `yaml:"tool"`      // "SERVER.TOOL", or as the caller names its tools
	Arguments Value  `yaml:"arguments"` // an object whose texts are templates

	Message   string    `yaml:"message"` // of an elicitation
	Schema    Value     `yaml:"schema"`  // JSON Schema of the answer
	OnDecline *Response `yaml:"onDecline"`
	OnCancel  *Response `yaml:"onCancel"`

	Collection    string `yaml:"collection"` // of a forEach: makes a JSON array
	ItemVar       string `yaml:"itemVar"`    // "": "item"
	MaxParallel   int    `yaml:"maxParallel"`
	MaxIterations int    `yaml:"maxIterations"`
	Step          *Step  `yaml:"step"` // what is done for each item: calls a tool
}

// OnError says what comes after a step that failed.
type OnError struct {
	Action     string   `yaml:"action"` // "abort" or "", "continue", "retry"
	RetryCount int      `yaml:"retryCount"`
	RetryDelay Duration `yaml:"retryDelay"` // before the first retry; 0: DefaultRetryDelay
}

// A Response says what comes after a person who did not accept.
type Response struct {
	Action string `yaml:"action"` // "abort" or "", "continue", "skip_remaining"
}

// An Output says of what the result of a composite tool is made.
type Output struct {
	Properties map[string]Property `yaml:"properties"`
	Required   []string            `yaml:"required"`
}

// A Property is one member of the result. It has a value, or properties of its own.
type Property struct {
	Type        string              `yaml:"type"` // of JSON Schema: "string", "integer", "number", "boolean", "object", "array"
	Description string              `yaml:"description"`
	Value       string              `yaml:"value"` // a template
	Properties  map[string]Property `yaml:"properties"`
	Default     Value               `yaml:"default"` // where the template cannot be had
}

// Annotations are the hints of MCP's tools; nil is what was not said.
type Annotations struct {
	Title       *string `yaml:"title" json:"title,omitempty"`
	ReadOnly    *bool   `yaml:"readOnlyHint" json:"readOnlyHint,omitempty"`
	Destructive *bool   `yaml:"destructiveHint" json:"destructiveHint,omitempty"`
	Idempotent  *bool   `yaml:"idempotentHint" json:"idempotentHint,omitempty"`
	OpenWorld   *bool   `yaml:"openWorldHint" json:"openWorldHint,omitempty"`
}

// A Duration is written as time.ParseDuration reads it: 30s, 1h30m.
type Duration time.Duration

// UnmarshalYAML takes the text of a duration.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: %.40q is no duration: want a number and a unit, as in 30s or 5m", n.Line, n.Value)
	}
	*d = Duration(v)
	return nil
}

// Parse reads one composite tool from a YAML document of at most MaxDefinition
// bytes. A field that is not known is an error.
func Parse(text []byte) (*Definition, error) {
	if len(text) > MaxDefinition {
		return nil, fmt.Errorf("the composite tool has %d bytes, at most %d", len(text), MaxDefinition)
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	d := new(Definition)
	if err := dec.Decode(d); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("nothing is there")
		}
		return nil, fmt.Errorf("composite tool: %w", err)
	}
	if dec.Decode(new(yaml.Node)) != io.EOF {
		return nil, errors.New("composite tool: want one document")
	}
	return d, nil
}
