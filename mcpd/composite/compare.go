package composite

import (
	"cmp"
	"encoding/json"
	"math/big"
	"reflect"
)

// eq says whether a equals one of the others. Numbers are equal by their value,
// whole or not; what has no value equals only what has none.
func (m *meter) eq(a any, others ...any) (bool, error) {
	if len(others) == 0 {
		return false, stopped("eq: want two values at least")
	}
	for _, b := range others {
		if a == nil || b == nil {
			if a == nil && b == nil {
				return true, nil
			}
			continue
		}
		c, err := m.compare(a, b)
		if err != nil {
			return false, err
		}
		if c == 0 {
			return true, nil
		}
	}
	return false, nil
}

func (m *meter) ne(a, b any) (bool, error) {
	same, err := m.eq(a, b)
	return !same, err
}

// order returns a function that says whether what comes of comparing fits.
func (m *meter) order(fits func(int) bool) any {
	return func(a, b any) (bool, error) {
		if _, ok := a.(bool); ok {
			return false, stopped("truth values have no order")
		}
		c, err := m.compare(a, b)
		return err == nil && fits(c), err
	}
}

// compare compares two texts, two numbers or two truth values.
func (m *meter) compare(a, b any) (int, error) {
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok {
			return cmp.Compare(x, y), m.spend(1 + (min(len(x), len(y)))/perUnit)
		}
	}
	if x, ok := a.(bool); ok {
		if y, ok := b.(bool); ok && x == y {
			return 0, nil
		} else if ok {
			return 1, nil
		}
	}
	x, y := exact(a), exact(b)
	if x == nil || y == nil {
		return 0, stopped("%s and %s cannot be compared", kindOf(a), kindOf(b))
	}
	return x.Cmp(y), m.spend(perUnit)
}

// exact returns a number with all its digits, or nil.
func exact(v any) *big.Float {
	f := new(big.Float)
	if n, ok := v.(json.Number); ok {
		f, _, err := big.ParseFloat(string(n), 10, MaxDigits*4, big.ToNearestEven)
		if err != nil {
			return nil
		}
		return f
	}
	switch n := reflect.ValueOf(v); {
	case n.CanInt():
		return f.SetInt64(n.Int())
	case n.CanUint():
		return f.SetUint64(n.Uint())
	case n.CanFloat():
		return f.SetFloat64(n.Float())
	}
	return nil
}

// kindOf names what v is, for who reads an error.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "what has no value"
	case string:
		return "a text"
	case bool:
		return "a truth value"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	}
	return "a number"
}
