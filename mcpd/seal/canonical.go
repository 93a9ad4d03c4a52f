package seal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hutch/aggd/rawjson"
)

// maxCanonical is how long a payload may be that is signed in the canonical
// form. A longer one is signed as it is sent.
const maxCanonical = 1 << 20

// Errors of Canonical.
var (
	ErrDuplicate = errors.New("duplicate member")
	errSurrogate = errors.New("half a surrogate pair")
	errLong      = errors.New("too long for the canonical form")
)

// Canonical returns a JSON value in the canonical form: the members of objects
// in the order of their names' bytes, no space, no escapes but those that must
// be, and numbers as they were sent. A value that two could understand
// differently has none.
func Canonical(value []byte) ([]byte, error) {
	if len(value) > maxCanonical {
		return nil, errLong
	}
	if err := rawjson.Check(value); err != nil {
		return nil, err
	}
	if rawjson.HalfPair(value) {
		return nil, errSurrogate
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	return appendValue(nil, d)
}

// appendValue appends the decoder's next value, which has been checked.
func appendValue(b []byte, d *json.Decoder) ([]byte, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			return appendObject(b, d)
		}
		return appendArray(b, d)
	case string:
		return appendString(b, v), nil
	case json.Number:
		return append(b, v...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	}
	return append(b, "null"...), nil
}

func appendArray(b []byte, d *json.Decoder) ([]byte, error) {
	b = append(b, '[')
	for first := true; d.More(); first = false {
		if !first {
			b = append(b, ',')
		}
		var err error
		if b, err = appendValue(b, d); err != nil {
			return nil, err
		}
	}
	d.Token() // the bracket
	return append(b, ']'), nil
}

func appendObject(b []byte, d *json.Decoder) ([]byte, error) {
	type member struct {
		name  string
		value []byte
	}
	var all []member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		value, err := appendValue(nil, d)
		if err != nil {
			return nil, err
		}
		all = append(all, member{name.(string), value})
	}
	d.Token() // the brace
	slices.SortFunc(all, func(a, b member) int { return strings.Compare(a.name, b.name) })
	b = append(b, '{')
	for i, m := range all {
		if i > 0 {
			if all[i-1].name == m.name {
				return nil, fmt.Errorf("%w %.64q", ErrDuplicate, m.name)
			}
			b = append(b, ',')
		}
		b = append(append(appendString(b, m.name), ':'), m.value...)
	}
	return append(b, '}'), nil
}

const digits = "0123456789abcdef"

// appendString appends s, in UTF-8, as a JSON string with the escapes that
// JSON.stringify of JavaScript, json.dumps of Python and serde_json make, and
// encoding/json does not.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			if c < ' ' {
				b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
				continue
			}
			b = append(b, c)
		}
	}
	return append(b, '"')
}
