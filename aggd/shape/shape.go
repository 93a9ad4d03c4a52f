// Package shape holds the items of MCP's lists against the standard. Clients that decode
// a list into types refuse the whole of it for one item that is of another shape.
package shape

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// maxName is how many bytes the name of an item may have: approved tools are kept by
// names of that length at most.
const maxName = 1 << 10

// A shape says what is wrong with a value, which is JSON without space around it.
type shape func(value []byte) error

// A member is one that an object may have.
type member struct {
	name  string
	needs bool // it has to be there
	is    shape
}

// Check says what the standard forbids of an item of the list. newer is the standard of
// 2026-07-28.
func Check(l *wire.List, item []byte, newer bool) error {
	older, newest := shapes()
	if is := newest[l]; newer && is != nil {
		return is(item)
	}
	return older[l](item)
}

// shapes returns the shapes of the items of each list, and those that the standard of
// 2026-07-28 has otherwise. Members that are not here may be anything.
var shapes = sync.OnceValues(func() (older, newest map[*wire.List]shape) {
	truth := like("true or false", `true|false`)
	hints := object(member{"title", false, text}, member{"readOnlyHint", false, truth}, member{"destructiveHint", false, truth},
		member{"idempotentHint", false, truth}, member{"openWorldHint", false, truth})
	annotations := object(member{"audience", false, list(one("user", "assistant"))}, member{"priority", false, share},
		member{"lastModified", false, like("an ISO 8601 time", `"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)"`)})
	icon := object(member{"src", true, text}, member{"mimeType", false, text}, member{"sizes", false, list(text)}, member{"theme", false, one("light", "dark")})
	argument := object(member{"name", true, text}, member{"title", false, text}, member{"description", false, text}, member{"required", false, truth})
	schema := object(member{"type", true, one("object")}, member{"properties", false, table(like("an object", `[{[].*`))}, member{"required", false, list(text)})

	described := []member{{"title", false, text}, {"description", false, text}, {"icons", false, list(icon)}, {"_meta", false, object()}}
	content := append([]member{{"name", true, name}, {"mimeType", false, text}, {"annotations", false, annotations}}, described...)
	tool := append([]member{{"name", true, name}, {"inputSchema", true, schema}, {"annotations", false, hints},
		{"execution", false, object(member{"taskSupport", false, one("required", "optional", "forbidden")})}}, described...)

	older = map[*wire.List]shape{
		wire.Tools: object(append([]member{{"outputSchema", false, schema}}, tool...)...),
		wire.Resources: object(append([]member{{"uri", true, like("a URI", `"[A-Za-z][A-Za-z0-9+.-]*:.*"`)},
			{"size", false, like("an integer", `-?\d{1,18}`)}}, content...)...),
		wire.Templates: object(append([]member{{"uriTemplate", true, name}}, content...)...),
		wire.Prompts:   object(append([]member{{"name", true, name}, {"arguments", false, list(argument)}}, described...)...),
	}
	newest = map[*wire.List]shape{
		wire.Tools: object(append([]member{{"outputSchema", false, object()}}, tool...)...), // a result may be any JSON
	}
	return older, newest
})

// object is the shape of an object with such members.
func object(members ...member) shape { return table(nil, members...) }

// table is the shape of an object whose members that are not named are of the shape rest.
func table(rest shape, members ...member) shape {
	return func(value []byte) (err error) {
		if value[0] != '{' {
			return want("an object", value)
		}
		there := make(map[string]bool, len(members))
		rawjson.Walk(value, func(key []byte, start, end int) {
			is := rest
			for _, m := range members {
				if m.name == string(key) {
					is, there[m.name] = m.is, true
				}
			}
			if is == nil || err != nil {
				return
			}
			if err = is(value[start:end]); err != nil {
				err = fmt.Errorf("%.40s: %w", key, err)
			}
		})
		for _, m := range members {
			if err == nil && m.needs && !there[m.name] {
				err = fmt.Errorf("it has no %s", m.name)
			}
		}
		return err
	}
}

// list is the shape of an array whose elements are all of a shape.
func list(is shape) shape {
	return func(value []byte) error {
		if value[0] != '[' {
			return want("an array", value)
		}
		for element := range rawjson.Each(value) {
			if err := is(element); err != nil {
				return err
			}
		}
		return nil
	}
}

// one is the shape of a text that is one of those.
func one(texts ...string) shape {
	return func(value []byte) error {
		if !rawjson.IsString(value) || !slices.Contains(texts, rawjson.String(value)) {
			return want(`"`+strings.Join(texts, `" or "`)+`"`, value)
		}
		return nil
	}
}

// like is the shape of a value whose JSON, without escapes, matches a pattern.
func like(what, pattern string) shape {
	written := regexp.MustCompile("(?s)^(" + pattern + ")$")
	return func(value []byte) error {
		plain := string(value)
		if rawjson.IsString(value) {
			plain = `"` + rawjson.String(value) + `"`
		}
		if !written.MatchString(plain) {
			return want(what, value)
		}
		return nil
	}
}

func name(value []byte) error {
	switch s := rawjson.String(value); {
	case !rawjson.IsString(value):
		return want("a text", value)
	case s == "":
		return errors.New("it is empty")
	case len(s) > maxName:
		return fmt.Errorf("it has %d bytes, at most %d", len(s), maxName)
	}
	return nil
}

func text(value []byte) error {
	if !rawjson.IsString(value) {
		return want("a text", value)
	}
	return nil
}

func share(value []byte) error {
	if n, err := strconv.ParseFloat(string(value), 64); err != nil || n < 0 || n > 1 {
		return want("a number from 0 to 1", value)
	}
	return nil
}

func want(what string, value []byte) error {
	return fmt.Errorf("%.40s is not %s", value, what)
}
