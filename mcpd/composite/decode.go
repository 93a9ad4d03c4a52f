package composite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// decode makes of one JSON value what templates work on: maps, slices, texts, truth
// values, nil, and numbers. Those are int64 or float64 where that has all their
// digits, or else a json.Number, which prints and compares as written.
func decode(text []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("more than one value")
	}
	return numbers(v)
}

// numbers replaces what is a number in v.
func numbers(v any) (_ any, err error) {
	switch v := v.(type) {
	case json.Number:
		if len(v) > MaxDigits {
			return nil, fmt.Errorf("a number has %d bytes, at most %d", len(v), MaxDigits)
		}
		return shortest(v), nil
	case []any:
		for i := range v {
			if v[i], err = numbers(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = numbers(v[k]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// exactDigits is how many decimal digits a float64 always keeps.
const exactDigits = 15

func shortest(n json.Number) any {
	s := string(n)
	if !strings.ContainsAny(s, ".eE") {
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return i
		}
		return n
	}
	mantissa := s
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa = s[:i]
	}
	digits := strings.Trim(strings.NewReplacer("-", "", ".", "").Replace(mantissa), "0")
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || len(digits) > exactDigits || f == 0 && digits != "" {
		return n
	}
	return f
}
