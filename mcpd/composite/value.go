package composite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"go.yaml.in/yaml/v3"
)

// A Value is anything that YAML can say and JSON too. The zero Value is one that
// is not there, or null.
type Value struct{ node *yaml.Node }

// UnmarshalYAML keeps the value as it is written. It is looked at by JSON, with
// a bound: few words of YAML can stand for much by their aliases.
func (v *Value) UnmarshalYAML(n *yaml.Node) error {
	v.node = n
	return nil
}

// IsZero says whether there is no value.
func (v Value) IsZero() bool { return v.node == nil }

// JSON returns the value in at most max bytes of JSON, nil where there is none.
// Numbers keep every digit.
func (v Value) JSON(max int) (json.RawMessage, error) {
	if v.node == nil {
		return nil, nil
	}
	e := encoder{max: max}
	if err := e.value(v.node, 0); err != nil {
		return nil, err
	}
	if len(e.out) > max {
		return nil, e.tooMuch(v.node)
	}
	return e.out, nil
}

// An encoder writes YAML as JSON.
type encoder struct {
	out []byte
	max int
}

func (e *encoder) value(n *yaml.Node, depth int) error {
	switch {
	case len(e.out) > e.max:
		return e.tooMuch(n)
	case depth > MaxDepth:
		return fmt.Errorf("line %d: values are more than %d deep in each other", n.Line, MaxDepth)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return e.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		return e.sequence(n, depth)
	case yaml.MappingNode:
		return e.mapping(n, depth)
	}
	text, err := scalar(n)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	e.out = append(e.out, text...)
	return nil
}

func (e *encoder) tooMuch(n *yaml.Node) error {
	return fmt.Errorf("line %d: the values have more than %d bytes of JSON", n.Line, e.max)
}

func (e *encoder) sequence(n *yaml.Node, depth int) error {
	e.out = append(e.out, '[')
	for i, item := range n.Content {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		if err := e.value(item, depth+1); err != nil {
			return err
		}
	}
	e.out = append(e.out, ']')
	return nil
}

func (e *encoder) mapping(n *yaml.Node, depth int) error {
	seen := make(map[string]bool, len(n.Content)/2)
	e.out = append(e.out, '{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		switch {
		case key.Kind != yaml.ScalarNode:
			return fmt.Errorf("line %d: a key is no text", key.Line)
		case key.ShortTag() == "!!merge":
			return fmt.Errorf("line %d: values cannot be merged by <<: write them out", key.Line)
		case seen[key.Value]:
			return fmt.Errorf("line %d: the key %.64q is there twice", key.Line, key.Value)
		}
		seen[key.Value] = true
		if i > 0 {
			e.out = append(e.out, ',')
		}
		name, err := marshal(key.Value)
		if err != nil {
			return err
		}
		e.out = append(append(e.out, name...), ':')
		if err := e.value(n.Content[i+1], depth+1); err != nil {
			return err
		}
	}
	e.out = append(e.out, '}')
	return nil
}

// scalar returns the JSON of one that is neither a sequence nor a mapping.
func scalar(n *yaml.Node) ([]byte, error) {
	switch n.ShortTag() {
	case "!!null":
		return []byte("null"), nil
	case "!!bool":
		var b bool
		if err := n.Decode(&b); err != nil {
			return nil, err
		}
		return marshal(b)
	case "!!int", "!!float":
		return number(n)
	}
	if n.Style == 0 && isNumber(n.Value) { // one that is too large for YAML
		return []byte(n.Value), nil
	}
	return marshal(n.Value)
}

// number returns a number as it is written, where JSON writes it so, too.
func number(n *yaml.Node) ([]byte, error) {
	if isNumber(n.Value) {
		return []byte(n.Value), nil
	}
	if n.ShortTag() == "!!int" { // 0x1f, 0o17, 1_000
		var i int64
		if err := n.Decode(&i); err != nil {
			return nil, err
		}
		return marshal(i)
	}
	var f float64
	if err := n.Decode(&f); err != nil {
		return nil, err
	}
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, errors.New("the number " + n.Value + " cannot be had in JSON")
	}
	return marshal(f)
}

// isNumber says whether s is a number of JSON.
func isNumber(s string) bool {
	return s != "" && (s[0] == '-' || '0' <= s[0] && s[0] <= '9') && json.Valid([]byte(s))
}

// marshal returns the JSON of v with all its texts as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
