package rawjson

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// IsString reports whether the JSON value is a string.
func IsString(value []byte) bool { return len(value) >= 2 && value[0] == '"' }

// String returns the text of the JSON string value, or "" where it is none.
func String(value []byte) string {
	if !IsString(value) {
		return ""
	}
	return string(unquoted(value))
}

// unquoted returns the text of the string value, as a piece of it where it can.
func unquoted(value []byte) []byte {
	if len(value) < 2 {
		return nil
	}
	if inner := value[1 : len(value)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var s string
	json.Unmarshal(value, &s) // s stays empty where value is no string
	return []byte(s)
}

// Quote returns s as a JSON string.
func Quote(s string) []byte { return AppendString(make([]byte, 0, len(s)+2), s) }

const hex = "0123456789abcdef"

// AppendString appends s as a JSON string, with no more escapes than needed.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	done := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		n := 1
		if c >= utf8.RuneSelf {
			var r rune
			if r, n = utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
		}
		b = appendEscape(append(b, s[done:i]...), c)
		i += n
		done = i
	}
	return append(append(b, s[done:]...), '"')
}

// appendEscape appends a byte that cannot stand in a JSON string as it is.
func appendEscape(b []byte, c byte) []byte {
	switch {
	case c >= utf8.RuneSelf:
		return utf8.AppendRune(b, utf8.RuneError)
	case c == '\n':
		return append(b, '\\', 'n')
	case c == '\r':
		return append(b, '\\', 'r')
	case c == '\t':
		return append(b, '\\', 't')
	case c < ' ':
		return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
	}
	return append(b, '\\', c)
}

// Encode returns v as JSON on one line, without the escapes meant for HTML.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Canonical returns the value as it is spelled wherever it is the same: members in
// the order of their names, no space. Of none it returns nothing.
func Canonical(value []byte) ([]byte, error) {
	if len(value) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(v) // sorts the names
}

// Line returns text on one line: line ends, which in JSON stand only between
// tokens, become spaces. Text without any is returned as it is.
func Line(text []byte) []byte {
	if !broken(text) {
		return text
	}
	return OneLine(bytes.Clone(text))
}

// OneLine is Line in place.
func OneLine(text []byte) []byte {
	if !broken(text) {
		return text
	}
	for i, c := range text {
		if c == '\n' || c == '\r' {
			text[i] = ' '
		}
	}
	return text
}

func broken(text []byte) bool {
	return bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0
}

// HalfPair reports whether a string of the value, which has been checked, escapes
// half a surrogate pair: of which decoders make what any other half is, too.
func HalfPair(value []byte) bool {
	for i := 0; i < len(value); i++ {
		if value[i] != '\\' {
			continue
		}
		i++ // what is escaped
		if value[i] != 'u' {
			continue
		}
		switch r := escaped(value[i:]); {
		case 0xDC00 <= r && r < 0xE000:
			return true
		case 0xD800 <= r && r < 0xDC00:
			i += 5
			if value[i] != '\\' || value[i+1] != 'u' {
				return true
			}
			i++
			if r = escaped(value[i:]); r < 0xDC00 || r >= 0xE000 {
				return true
			}
		}
	}
	return false
}

// escaped returns what stands behind the u of an escape.
func escaped(u []byte) uint64 {
	r, _ := strconv.ParseUint(string(u[1:5]), 16, 16)
	return r
}
