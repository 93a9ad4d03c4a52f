package vmcp

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"hutch/mcpd/composite"
)

// TestPage holds the manual page against the keys: each is there, and what it shows
// parses.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("vmcp.5")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for key := range keysOf(reflect.TypeFor[Config]()) {
		if !regexp.MustCompile(`\b` + regexp.QuoteMeta(key) + `\b`).MatchString(page) {
			t.Errorf("the page does not have the key %s", key)
		}
	}
	_, example, _ := strings.Cut(page, ".EX\n")
	example, _, _ = strings.Cut(example, ".EE\n")
	if c := parsed(t, example); c.Aggregation.Tools[0].Overrides["create_issue"].Name != "open_issue" {
		t.Errorf("the example says %+v", c.Aggregation)
	}
}

// keysOf returns the keys of YAML that a type has, and those of its parts.
func keysOf(of reflect.Type) map[string]bool {
	keys := make(map[string]bool)
	var add func(reflect.Type)
	add = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			add(of.Elem())
		case reflect.Struct:
			if of == reflect.TypeFor[composite.Definition]() {
				return
			}
			for i := range of.NumField() {
				if key := of.Field(i).Tag.Get("yaml"); key != "" {
					keys[key] = true
					add(of.Field(i).Type)
				}
			}
		}
	}
	add(of)
	return keys
}
