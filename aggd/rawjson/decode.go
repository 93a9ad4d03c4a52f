package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Unknown is the error of a member that nothing has a use for: its name.
type Unknown string

func (u Unknown) Error() string { return fmt.Sprintf("%.64q is not known", string(u)) }

// Decode reads an object into the fields of a struct, which must have one for
// each of its members, of just that name, once: encoding/json takes Path for path,
// and the last of two, and who decides about path has not seen it. Of no text it
// reads nothing. Its error is for who wrote the object.
func Decode(text []byte, into any) error {
	if len(text) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return decoding(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("more follows it")
	}
	known := namesOf(reflect.TypeOf(into).Elem())
	var wrong error
	seen := make([]bool, len(known))
	Walk(text, func(key []byte, _, _ int) {
		i := slices.Index(known, string(key))
		switch {
		case wrong != nil:
		case i < 0:
			wrong = Unknown(key)
		case seen[i]:
			wrong = fmt.Errorf("%w %s: it stands there twice", ErrAmbiguous, Quote(string(key)))
		default:
			seen[i] = true
		}
	})
	return wrong
}

// names are those of the fields of the structs that were decoded into, by type.
var names sync.Map

func namesOf(of reflect.Type) []string {
	known, ok := names.Load(of)
	if !ok {
		known, _ = names.LoadOrStore(of, fieldNames(nil, of))
	}
	return known.([]string)
}

// decoding says what is wrong in words for who wrote the object.
func decoding(err error) error {
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

// fieldNames adds the names that JSON has for the fields of a struct, and of those
// that are embedded in it.
func fieldNames(names []string, of reflect.Type) []string {
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name != "":
			names = append(names, name)
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			names = fieldNames(names, f.Type)
		case f.IsExported():
			names = append(names, f.Name)
		}
	}
	return names
}
