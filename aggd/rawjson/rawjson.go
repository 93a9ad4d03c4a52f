// Package rawjson reads and changes single values inside JSON text and leaves
// every other byte as it came. It decodes nothing: number precision, key order,
// unknown fields and spelling survive.
//
// What comes from strangers is checked first: Check and Object pass over every
// byte and refuse what is not JSON or is nested too deep. The other functions
// trust that this, or json.Valid, has been done and only skip from value to
// value; given anything else they return wrong pieces, but never panic and never
// read past the end.
package rawjson

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
)

// Get returns the value at the path of keys below obj, or nil. Of keys that
// occur twice it takes the last, as most decoders do.
func Get(obj []byte, keys ...string) []byte {
	for _, want := range keys {
		var found []byte
		Walk(obj, func(key []byte, start, end int) {
			if string(key) == want {
				found = obj[start:end]
			}
		})
		if found == nil {
			return nil
		}
		obj = found
	}
	return obj
}

// GetString returns the text of the string at the path of keys, or "".
func GetString(obj []byte, keys ...string) string { return String(Get(obj, keys...)) }

// Set returns obj with value in place of what stands at the path of keys, every
// time it stands there. Where it stands nowhere, obj itself is returned.
func Set(obj, value []byte, keys ...string) []byte {
	out, _ := set(obj, value, keys)
	return out
}

// SetString is Set with the string s, for a value that must be there.
func SetString(obj []byte, s string, keys ...string) ([]byte, error) {
	out, found := set(obj, Quote(s), keys)
	if !found {
		return nil, fmt.Errorf("%w: no member %q", ErrType, keys)
	}
	return out, nil
}

func set(obj, value []byte, keys []string) (out []byte, found bool) {
	last := 0
	Walk(obj, func(key []byte, start, end int) {
		if string(key) != keys[0] {
			return
		}
		put := value
		if len(keys) > 1 {
			var there bool
			if put, there = set(obj[start:end], value, keys[1:]); !there {
				return
			}
		}
		if !found {
			out = make([]byte, 0, len(obj)+max(0, len(put)-(end-start)))
		}
		found = true
		out = append(append(out, obj[last:start]...), put...)
		last = end
	})
	if !found {
		return obj, false
	}
	return append(out, obj[last:]...), true
}

// Splice returns a copy of text with value in place of what stands from start
// to end.
func Splice(text []byte, start, end int, value []byte) []byte {
	out := make([]byte, 0, len(text)+len(value)-(end-start))
	out = append(append(out, text[:start]...), value...)
	return append(out, text[end:]...)
}

// Elements returns the elements of the array arr, or nil where it is none.
func Elements(arr []byte) [][]byte {
	var elements [][]byte
	if i := skipSpace(arr, 0); i < len(arr) && arr[i] == '[' {
		elements = [][]byte{}
	}
	for element := range Each(arr) {
		elements = append(elements, element)
	}
	return elements
}

// Each yields the elements of the array arr; none where it is no array.
func Each(arr []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) { yieldElements(arr, yield) }
}

func yieldElements(arr []byte, yield func([]byte) bool) {
	i := skipSpace(arr, 0)
	if i >= len(arr) || arr[i] != '[' {
		return
	}
	i = skipSpace(arr, i+1)
	for i < len(arr) && arr[i] != ']' {
		end := skipValue(arr, i)
		if !yield(arr[i:end]) {
			return
		}
		next := skipSpace(arr, end)
		if next < len(arr) && arr[next] == ',' {
			next = skipSpace(arr, next+1)
		}
		if next == i {
			return
		}
		i = next
	}
}

// Inside returns what stands between the braces of the object, without space at
// its ends.
func Inside(obj []byte) []byte {
	obj = bytes.TrimSpace(obj)
	if len(obj) < 2 || obj[0] != '{' {
		return nil
	}
	return bytes.TrimSpace(obj[1 : len(obj)-1])
}

// Delete returns obj without the members of the given names; obj itself where it
// has none of them.
func Delete(obj []byte, names ...string) []byte {
	return DeleteFunc(obj, func(key, _ []byte) bool { return slices.Contains(names, string(key)) })
}

// DeleteFunc returns obj without the members that gone is true of; obj itself where
// it has none of them.
func DeleteFunc(obj []byte, gone func(key, value []byte) bool) []byte {
	b := append(make([]byte, 0, len(obj)), '{')
	last, found := 0, false
	Walk(obj, func(key []byte, start, end int) {
		member := bytes.TrimLeft(obj[last:end], ",{ \t\r\n")
		last = end
		if gone(key, obj[start:end]) {
			found = true
			return
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, member...)
	})
	if !found {
		return obj
	}
	return append(b, '}')
}

// Merge returns obj, or an empty object where it is none, with the members of the
// object more in its member of the given name, in the place of those that it has
// there.
func Merge(obj, more []byte, name string) []byte {
	inside := Inside(more)
	if len(inside) == 0 {
		return obj
	}
	var names []string
	Walk(more, func(key []byte, _, _ int) { names = append(names, string(key)) })
	was := Get(obj, name)
	b := append([]byte("{"), inside...)
	if rest := Inside(Delete(was, names...)); len(rest) > 0 {
		b = append(append(b, ','), rest...)
	}
	b = append(b, '}')
	if was != nil {
		return Set(obj, b, name)
	}
	out := append(append(append(append([]byte("{"), Quote(name)...), ':'), b...), '}')
	if rest := Inside(obj); len(rest) > 0 {
		out = append(append(append(out[:len(out)-1], ','), rest...), '}')
	}
	return out
}
