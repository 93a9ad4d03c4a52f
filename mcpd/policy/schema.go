package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

const (
	maxSchema  = 256 << 10 // bytes of a schema
	maxSchemas = 256       // that are kept compiled

	maxExponent = 400  // of a number, beside the 308 of a float64
	maxDigits   = 1000 // bytes of a number before its exponent
)

// schemas are those that were compiled last.
var schemas struct {
	mu   sync.Mutex // guards what follows
	kept map[string]*jsonschema.Schema
}

// CheckSchema says what is wrong with a JSON Schema of at most 256 KiB, which may
// refer to nothing outside of it.
func CheckSchema(schema []byte) error {
	_, err := compiledSchema(schema)
	return err
}

// Fits says how a text of JSON breaks a schema, nil if it does not. Everything
// fits an empty schema.
func Fits(schema, text []byte) error {
	if len(schema) == 0 {
		return nil
	}
	s, err := compiledSchema(schema)
	if err != nil {
		return fmt.Errorf("the schema cannot be read: %w", err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	if err := checkNumbers(v); err != nil {
		return err
	}
	err = s.Validate(v)
	var wrong *jsonschema.ValidationError
	if errors.As(err, &wrong) {
		for len(wrong.Causes) > 0 {
			wrong = wrong.Causes[0]
		}
		err := fmt.Errorf("%q breaks %s", wrong.InstanceLocation, wrong.ErrorKind.KeywordPath())
		if lacks, ok := wrong.ErrorKind.(*kind.Required); ok {
			err = fmt.Errorf("%w: there is no %.64q", err, lacks.Missing[0])
		}
		return err
	}
	return err
}

// checkNumbers refuses numbers that a schema cannot be held against: Validate has
// each as a big.Rat, which takes long at an exponent that is large, and panics at one
// that is larger.
func checkNumbers(v any) error {
	switch v := v.(type) {
	case json.Number:
		mantissa, exponent, _ := strings.Cut(strings.ToLower(string(v)), "e")
		e, err := strconv.Atoi(cmp.Or(exponent, "0"))
		if err != nil || max(e, -e) > maxExponent || len(mantissa) > maxDigits {
			return fmt.Errorf("the number %.32s is too long or too large", v)
		}
	case []any:
		for _, item := range v {
			if err := checkNumbers(item); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, member := range v {
			if err := checkNumbers(member); err != nil {
				return err
			}
		}
	}
	return nil
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
	if err := checkNumbers(doc); err != nil {
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
