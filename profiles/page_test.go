package profiles

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// keysOf returns the keys of t and of the tables in it, with dots. The name of
// an entry of a table of tables is NAME.
func keysOf(t reflect.Type, prefix string) (keys []string) {
	for _, f := range reflect.VisibleFields(t) {
		name := f.Tag.Get("toml")
		if name == "" {
			continue
		}
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Map && inner.Elem().Kind() == reflect.Struct {
			name += ".NAME"
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			keys = append(keys, keysOf(inner, prefix+name+".")...)
		} else {
			keys = append(keys, prefix+name)
		}
	}
	return keys
}

// Every key has its entry in the page and every entry is a key.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("profile.5")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n.SH KEYS\n")
	text, _, _ = strings.Cut(text, "\n.SH EXAMPLES\n")
	var entries []string
	for _, m := range regexp.MustCompile(`(?m)^\.T[PQ]\n\.B (\S+)$`).FindAllStringSubmatch(text, -1) {
		entries = append(entries, m[1])
	}
	keys := keysOf(reflect.TypeFor[file](), "")
	for _, k := range keys {
		if !slices.Contains(entries, k) {
			t.Errorf("%s is not in profile.5", k)
		}
	}
	for i, e := range entries {
		if !slices.Contains(keys, e) {
			t.Errorf("profile.5 tells of %s, which is no key", e)
		}
		if slices.Contains(entries[:i], e) {
			t.Errorf("profile.5 tells of %s twice", e)
		}
	}
}

// The examples of the page parse.
func TestPageExamples(t *testing.T) {
	page, err := os.ReadFile("profile.5")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n.SH EXAMPLES\n")
	examples := regexp.MustCompile(`(?s)\n\.EX\n(.*?)\n\.EE\n`).FindAllStringSubmatch(text, -1)
	if len(examples) < 3 {
		t.Errorf("%d examples", len(examples))
	}
	for _, m := range examples {
		if strings.HasPrefix(m[1], "$ ") {
			continue // a shell's
		}
		if _, err := Parse("example", []byte(strings.ReplaceAll(m[1], `\e`, `\`))); err != nil {
			t.Errorf("%v:\n%s", err, m[1])
		}
	}
}
