package hostmcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"hutch/fs"
)

// A tool is a row of the table of tools.
type tool struct {
	name   string // without the prefix
	doc    string
	params []param
	hints  hint
	out    any // the zero value of what do returns, a struct
	do     func(*call, context.Context) (any, error)
	alone  bool // does without a service
}

// A param is what a tool takes.
type param struct {
	name string
	kind kind
	must bool
	def  any // nil: none
	doc  string
	enum []string
	max  int // of a number; 0: any
}

// A kind is the type of a parameter: as JSON Schema has it, or more exactly.
type kind string

const (
	text     kind = "string"
	whole    kind = "integer"
	yesno    kind = "boolean"
	texts    kind = "array"   // of strings
	textMap  kind = "object"  // of strings
	object   kind = "any"     // object
	vmName   kind = "sandbox" // of which it is the name
	execName kind = "command" // of which it is the name
)

// inJSON is the type in JSON Schema.
func (k kind) inJSON() kind {
	switch k {
	case object:
		return textMap
	case vmName, execName:
		return text
	}
	return k
}

// A hint is what a client may know of a tool before it calls it.
type hint uint8

const (
	readOnly hint = 1 << iota
	destructive
	idempotent
	openWorld
)

// declared is the tool as MCP declares it.
func (t tool) declared(prefix string) mcp.Tool {
	flag := func(h hint) *bool { return mcp.ToBoolPtr(t.hints&h != 0) }
	return mcp.Tool{
		Name: prefix + t.name, Description: t.doc,
		RawInputSchema: t.inputSchema(), RawOutputSchema: outputSchema(t.out),
		Annotations: mcp.ToolAnnotation{
			ReadOnlyHint: flag(readOnly), DestructiveHint: flag(destructive),
			IdempotentHint: flag(idempotent), OpenWorldHint: flag(openWorld),
		},
	}
}

func (t tool) inputSchema() json.RawMessage {
	properties, must := map[string]any{}, []string{}
	for _, p := range t.params {
		properties[p.name] = p.schema()
		if p.must {
			must = append(must, p.name)
		}
	}
	return encoded(map[string]any{"type": "object", "properties": properties, "required": must, "additionalProperties": false})
}

func (p param) schema() map[string]any {
	s := map[string]any{"type": p.kind.inJSON(), "description": p.doc}
	switch p.kind {
	case texts:
		s["items"] = map[string]any{"type": text}
	case textMap:
		s["additionalProperties"] = map[string]any{"type": text}
	case whole:
		s["minimum"] = 0
		if p.max > 0 {
			s["maximum"] = p.max
		}
	}
	if p.enum != nil {
		s["enum"] = p.enum
	}
	if p.def != nil {
		s["default"] = p.def
	}
	return s
}

func outputSchema(zero any) json.RawMessage {
	s, err := jsonschema.ForType(reflect.TypeOf(zero), &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.RawMessage](): {Type: "object"},
	}})
	if err != nil {
		panic(err) // of a type that is in our table
	}
	return encoded(s)
}

func encoded(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// arguments are those of a call, checked, with the defaults.
type arguments map[string]any

// arguments checks what a call gives. The schema says the same to clients; what
// is wrong is said here in words.
func (t tool) arguments(given map[string]any) (arguments, error) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(t.params, func(p param) bool { return p.name == name }) {
			return nil, fmt.Errorf("%w: %s takes no %q: %s", fs.ErrInvalid, t.name, name, t.usage())
		}
	}
	args := arguments{}
	for _, p := range t.params {
		v := given[p.name]
		switch {
		case v == nil && p.must:
			return nil, fmt.Errorf("%w: %s wants %q: %s", fs.ErrInvalid, t.name, p.name, t.usage())
		case v == nil:
			v = p.def
		case !p.fits(v):
			return nil, fmt.Errorf("%w: %s: %q is to be %s", fs.ErrInvalid, t.name, p.name, p.wanted())
		}
		if p.kind == vmName || p.kind == execName {
			if name, _ := v.(string); (name != "" || p.must) && !isName(name) {
				return nil, fmt.Errorf("%w: %q is not the name of a %s", fs.ErrInvalid, name, p.kind)
			}
		}
		if v != nil {
			args[p.name] = v
		}
	}
	return args, nil
}

// usage names the parameters, with a ? those that can be left out.
func (t tool) usage() string {
	if len(t.params) == 0 {
		return "it takes nothing"
	}
	var names []string
	for _, p := range t.params {
		if name := p.name; p.must {
			names = append(names, name)
		} else {
			names = append(names, name+"?")
		}
	}
	return "it takes " + strings.Join(names, " ")
}

// fits says whether a value is what the schema says.
func (p param) fits(v any) bool {
	ofText := func(v any) bool { _, ok := v.(string); return ok }
	switch v := v.(type) {
	case string:
		return p.kind.inJSON() == text && (p.enum == nil || slices.Contains(p.enum, v))
	case float64:
		return p.kind == whole && v == math.Trunc(v) && v >= 0 && v <= 1<<53 && (p.max == 0 || v <= float64(p.max))
	case bool:
		return p.kind == yesno
	case []any:
		return p.kind == texts && !slices.ContainsFunc(v, func(v any) bool { return !ofText(v) })
	case map[string]any:
		return p.kind == object || p.kind == textMap && !slices.ContainsFunc(slices.Collect(maps.Values(v)), func(v any) bool { return !ofText(v) })
	}
	return false
}

// wanted says what values a parameter has.
func (p param) wanted() string {
	switch {
	case p.enum != nil:
		return "one of " + strings.Join(p.enum, ", ")
	case p.kind == whole && p.max > 0:
		return fmt.Sprintf("a whole number from 0 to %d", p.max)
	}
	return map[kind]string{
		text: "a string", vmName: "the name of a sandbox", execName: "the name of a command",
		whole: "a whole number, 0 or more", yesno: "true or false", texts: "a list of strings",
		textMap: "an object of strings", object: "an object",
	}[p.kind]
}

func (a arguments) text(name string) string {
	s, _ := a[name].(string)
	return s
}

func (a arguments) flag(name string) bool {
	b, _ := a[name].(bool)
	return b
}

func (a arguments) number(name string) int {
	switch n := a[name].(type) {
	case int:
		return n
	case float64:
		return int(n)
	}
	return 0
}

func (a arguments) texts(name string) (list []string) {
	all, _ := a[name].([]any)
	for _, v := range all {
		s, _ := v.(string)
		list = append(list, s)
	}
	return list
}

func (a arguments) textMap(name string) map[string]string {
	m := map[string]string{}
	all, _ := a[name].(map[string]any)
	for k, v := range all {
		m[k], _ = v.(string)
	}
	return m
}

func (a arguments) has(name string) bool { return a[name] != nil }

// pretty is a result as people and models read it.
func pretty(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// advice is what the tree's errors end with, and what says the same by tools and
// resources.
var advice = []struct{ ofTree, ofTools string }{
	{": start it first", ": resume starts it"},
	{": start it", ": resume starts it"},
	{": read undo for what has", ": undos lists what has"},
	{": see drivers", ": read hutch:///drivers"},
	{": see profiles, as hutch profile ls lists them", ": read hutch:///profiles"},
}

// errorText is what a client is told of an error.
func errorText(err error) string {
	text := fs.Text(err)
	for _, a := range advice {
		if before, ok := strings.CutSuffix(text, a.ofTree); ok {
			return before + a.ofTools
		}
	}
	return text
}

// progressOf returns what tells a call's client how far it is, if that wants
// to know.
func progressOf(ctx context.Context, q mcp.CallToolRequest) func(int, string) {
	s, ok := server.ClientSessionFromContext(ctx).(*session)
	if !ok || q.Params.Meta == nil || q.Params.Meta.ProgressToken == nil {
		return nil
	}
	return func(done int, text string) {
		s.notify(string(mcp.MethodNotificationProgress), map[string]any{
			"progressToken": q.Params.Meta.ProgressToken, "progress": done, "message": text,
		})
	}
}

// lines parts JSON lines. Their members stay in the order in which they come,
// and their numbers exact.
func lines(text string) ([]json.RawMessage, error) {
	list := []json.RawMessage{}
	dec := json.NewDecoder(strings.NewReader(text))
	for {
		var row json.RawMessage
		switch err := dec.Decode(&row); {
		case err == io.EOF:
			return list, nil
		case err != nil:
			return nil, fmt.Errorf("%w: lines of JSON: %w", fs.ErrIO, err)
		case row[0] != '{':
			return nil, fmt.Errorf("%w: line is no JSON object: %.40q", fs.ErrIO, row)
		}
		list = append(list, row)
	}
}
