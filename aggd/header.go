package aggd

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// The headers by which a request of 2026-07-28 says what it is about.
const (
	methodHeader = "Mcp-Method"
	nameHeader   = "Mcp-Name"
	paramHeader  = "Mcp-Param-"
	annotation   = "x-mcp-header"
)

// nameMembers are the params that the name header repeats.
var nameMembers = map[string]string{
	"tools/call": "name", "prompts/get": "name", "resources/read": "uri",
	"tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId",
}

// A headerParam is an argument of a tool that a header repeats.
type headerParam struct {
	name string
	path []string
}

// mirror makes the headers say what the request is about.
func (u *upstream) mirror(h http.Header, method string, params []byte) {
	h.Set(protocolHeader, jsonrpc.Stateless)
	h.Set(methodHeader, method)
	if member := nameMembers[method]; member != "" {
		h.Set(nameHeader, headerValue(rawjson.GetString(params, member)))
	}
	if method != "tools/call" {
		return
	}
	args := rawjson.Get(params, "arguments")
	for _, p := range u.headerParams(rawjson.GetString(params, "name")) {
		if value, ok := argument(rawjson.Get(args, p.path...)); ok {
			h.Set(paramHeader+p.name, headerValue(value))
		}
	}
}

// argument returns an argument as a header has it, if it is one that can be.
func argument(raw []byte) (string, bool) {
	switch {
	case rawjson.IsString(raw):
		return rawjson.String(raw), true
	case string(raw) == "true", string(raw) == "false":
		return string(raw), true
	}
	if _, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return string(raw), true
	}
	if f, err := strconv.ParseFloat(string(raw), 64); err == nil && f == float64(int64(f)) {
		return strconv.FormatInt(int64(f), 10), true
	}
	return "", false
}

// headerValue spells a value so that a header can have it.
func headerValue(s string) string {
	const begin, end = "=?base64?", "?="
	plain := strings.Trim(s, " \t") == s && !(strings.HasPrefix(s, begin) && strings.HasSuffix(s, end)) &&
		!strings.ContainsFunc(s, func(r rune) bool { return r != '\t' && (r < ' ' || r > '~') })
	if plain {
		return s
	}
	return begin + base64.StdEncoding.EncodeToString([]byte(s)) + end
}

// headersOf finds the arguments that the schema of a tool wants to be repeated.
func headersOf(schema []byte) ([]headerParam, error) {
	var found []headerParam
	err := annotated(schema, nil, &found)
	return found, err
}

var errAnnotation = errors.New("the schema has " + annotation + " where it may not be")

// literalWords are the keywords whose values are no schemas.
var literalWords = []string{"default", "examples", "const", "enum"}

// annotated walks the properties of a schema.
func annotated(schema []byte, path []string, found *[]headerParam) (err error) {
	if len(path) > maxPath {
		return fmt.Errorf("the schema is nested deeper than %d", maxPath)
	}
	rawjson.Walk(schema, func(key []byte, start, end int) {
		value := schema[start:end]
		switch word := string(key); {
		case err != nil, slices.Contains(literalWords, word):
		case word == annotation:
			err = addHeader(schema, value, path, found)
		case word == "properties":
			rawjson.Walk(value, func(name []byte, start, end int) {
				if err == nil {
					err = annotated(value[start:end], append(slices.Clone(path), string(name)), found)
				}
			})
		case annotatedWithin(value, 0):
			err = errAnnotation
		}
	})
	return err
}

const maxPath = 32

// annotatedWithin reports whether there is an annotation anywhere in a value.
func annotatedWithin(value []byte, depth int) (has bool) {
	if depth > 2*maxPath || len(value) == 0 {
		return false
	}
	for _, element := range rawjson.Elements(value) {
		has = has || annotatedWithin(element, depth+1)
	}
	rawjson.Walk(value, func(key []byte, start, end int) {
		has = has || string(key) == annotation || !slices.Contains(literalWords, string(key)) && annotatedWithin(value[start:end], depth+1)
	})
	return has
}

func addHeader(schema, value []byte, path []string, found *[]headerParam) error {
	name := rawjson.String(value)
	switch kind := rawjson.GetString(schema, "type"); {
	case len(path) == 0:
		return errAnnotation
	case name == "" || strings.ContainsFunc(name, notInToken):
		return fmt.Errorf("%s %.40s is no name of a header", annotation, value)
	case kind != "string" && kind != "integer" && kind != "boolean":
		return fmt.Errorf("%s %s is of the type %.40q", annotation, name, kind)
	}
	for _, other := range *found {
		if strings.EqualFold(other.name, name) {
			return fmt.Errorf("%s %s is there twice", annotation, name)
		}
	}
	*found = append(*found, headerParam{name, path})
	return nil
}

func notInToken(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

// headed returns the tools that can be called over HTTP, which of their arguments
// headers repeat, and what is left out, with what was before.
func headed(items [][]byte, left []string) (good [][]byte, params map[string][]headerParam, _ []string) {
	params = make(map[string][]headerParam)
	for _, raw := range items {
		name := text(raw, "name")
		found, err := headersOf(rawjson.Get(raw, "inputSchema"))
		if err != nil {
			left = append(left, leftOut(wire.Tools, name, err))
			continue
		}
		good = append(good, raw)
		if found != nil {
			params[name] = found
		}
	}
	return good, params, left
}

func (u *upstream) headerParams(tool string) []headerParam {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.headers[tool]
}

// mismatched reports whether a server says that the headers do not fit.
func mismatched(o outcome) bool {
	var e *jsonrpc.Error
	return errors.As(o.failure(), &e) && e.Code == jsonrpc.CodeHeader
}
