package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Unknown is the error of a member that nothing has a use for: its name.
type Unknown string

func (u Unknown) Error() string { return fmt.Sprintf("%.64q is not known", string(u)) }

// Decode reads an object into the fields of a struct, which must have one for
// each of its members. Of no text it reads nothing. Its error is for who wrote
// the object.
func Decode(text []byte, into any) error {
	if len(text) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, err = d.Token(); err == io.EOF {
			return nil
		}
		return errors.New("more follows it")
	}
	if mistyped, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		name := mistyped.Field[strings.LastIndexByte(mistyped.Field, '.')+1:]
		if name == "" {
			return fmt.Errorf("write an object, {…}, not the %s that it is", mistyped.Value)
		}
		return fmt.Errorf("%q takes no %s", name, mistyped.Value)
	}
	says := strings.TrimPrefix(err.Error(), "json: ")
	if name, ok := strings.CutPrefix(says, "unknown field "); ok {
		return Unknown(strings.Trim(name, `"`))
	}
	return errors.New(says)
}
