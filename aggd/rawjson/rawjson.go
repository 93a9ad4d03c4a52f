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

import "fmt"

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
	i := skipSpace(arr, 0)
	if i >= len(arr) || arr[i] != '[' {
		return nil
	}
	elements := [][]byte{}
	i = skipSpace(arr, i+1)
	for i < len(arr) && arr[i] != ']' {
		end := skipValue(arr, i)
		elements = append(elements, arr[i:end])
		next := skipSpace(arr, end)
		if next < len(arr) && arr[next] == ',' {
			next = skipSpace(arr, next+1)
		}
		if next == i {
			break
		}
		i = next
	}
	return elements
}
