package policy

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	maxSchema  = 256 << 10 // bytes of a schema
	maxSchemas = 256       // that are kept compiled
)

// schemas are those that were compiled last.
var schemas struct {
	mu   sync.Mutex // guards what follows
	kept map[string]*jsonschema.Schema
}

// fits says how a text of JSON breaks a schema, nil if it does not.
func fits(schema, text []byte) error {
	if len(schema) == 0 {
		return nil
	}
	s, err := compiledSchema(schema)
	if err != nil {
		return fmt.Errorf("the tool's schema cannot be read: %w", err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	err = s.Validate(v)
	var wrong *jsonschema.ValidationError
	if errors.As(err, &wrong) {
		for len(wrong.Causes) > 0 {
			wrong = wrong.Causes[0]
		}
		return fmt.Errorf("the tool does not take that: %q breaks %s", wrong.InstanceLocation, wrong.ErrorKind.KeywordPath())
	}
	return err
}

func compiledSchema(text []byte) (*jsonschema.Schema, error) {
	schemas.mu.Lock()
	defer schemas.mu.Unlock()
	if s := schemas.kept[string(text)]; s != nil {
		return s, nil
	}
	if len(text) > maxSchema {
		return nil, fmt.Errorf("it has %d bytes, at most %d", len(text), maxSchema)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource("tool.json", doc); err != nil {
		return nil, err
	}
	s, err := c.Compile("tool.json")
	if err != nil {
		return nil, err
	}
	if len(schemas.kept) >= maxSchemas || schemas.kept == nil {
		schemas.kept = make(map[string]*jsonschema.Schema)
	}
	schemas.kept[string(text)] = s
	return s, nil
}

// noLoader loads nothing: a schema has all of itself.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%.64q is elsewhere", url)
}
