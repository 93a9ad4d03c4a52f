package profiles

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"hutch/fs"
)

// A key is the way to a value in a profile.
type key []string

// with returns the key of name in k.
func (k key) with(name string) key { return append(k[:len(k):len(k)], name) }

// String returns the key as TOML writes it.
func (k key) String() string {
	names := make([]string, len(k))
	for i, name := range k {
		names[i] = name
		if !isBare(name) {
			names[i] = quote(name)
		}
	}
	return strings.Join(names, ".")
}

// anyName in the path of a lock is every name. No server is called that.
const anyName = "*"

// starts tells whether k is the way to other, or to what holds it.
func (k key) starts(other key) bool {
	if len(k) > len(other) {
		return false
	}
	for i := range k {
		if k[i] != other[i] && k[i] != anyName && other[i] != anyName {
			return false
		}
	}
	return true
}

// isBare tells whether a name needs no quotes.
func isBare(name string) bool { return name != "" && !strings.ContainsFunc(name, fs.NotIn("_-")) }

// quote returns a text in quotes. JSON's are good for TOML, but for one
// character.
func quote(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(text)
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007f`)
}

// parseKey reads a key as TOML writes it: names with dots between them, each in
// quotes or without.
func parseKey(text string) (key, error) {
	var k key
	for rest := text; ; {
		name, after, err := cutName(strings.TrimLeft(rest, " \t"))
		if err != nil {
			return nil, fmt.Errorf("%.64q %w", text, err)
		}
		k = append(k, name)
		after = strings.TrimLeft(after, " \t")
		if after == "" {
			return k, nil
		}
		var dot bool
		if rest, dot = strings.CutPrefix(after, "."); !dot {
			return nil, fmt.Errorf("%.64q is no path: put a dot between names, and quotes around odd ones", text)
		}
	}
}

// cutName cuts the first name of a key off.
func cutName(text string) (name, after string, err error) {
	end := strings.IndexFunc(text, fs.NotIn("_-"))
	switch {
	case end < 0:
		end = len(text)
	case end == 0 && (text[0] == '"' || text[0] == '\''):
		if end = closing(text); end < 0 {
			return "", "", fmt.Errorf("has a quote that is not closed")
		}
		var said struct{ V string }
		if err := toml.Unmarshal([]byte("v = "+text[:end]), &said); err != nil {
			return "", "", fmt.Errorf("has something in quotes that is no text of TOML")
		}
		return said.V, text[end:], nil
	}
	if end == 0 {
		return "", "", fmt.Errorf("has an empty name in it")
	}
	return text[:end], text[end:], nil
}

// closing returns where the text ends that is in quotes, -1 if it does not.
func closing(text string) int {
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == text[0]:
			return i + 1
		case text[i] == '\\' && text[0] == '"':
			i++
		}
	}
	return -1
}
