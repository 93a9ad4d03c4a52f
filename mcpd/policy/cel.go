package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
)

// maxCost is what a condition may cost, in the units of CEL: about as many
// steps of its evaluation, and bytes that it goes through.
const maxCost = 100_000

// A root is a name that conditions have for a part of an event.
type root struct {
	name  string
	kind  *cel.Type
	value func(*Event) any
}

// common are the roots of every event.
var common = []root{
	{"vm.name", cel.StringType, func(e *Event) any { return e.VM }},
	{"vm.profile", cel.StringType, func(e *Event) any { return e.Profile }},
	{"session", cel.StringType, func(e *Event) any { return e.Session }},
	{"principal", cel.StringType, func(e *Event) any { return e.Principal }},
}

// requestRoots are those of what is asked over MCP.
var requestRoots = []root{
	{"mcp.request.method", cel.StringType, func(e *Event) any { return e.Method }},
	{"mcp.request.server_name", cel.StringType, func(e *Event) any { return e.Server }},
	{"mcp.request.tool_name", cel.StringType, func(e *Event) any { return e.Tool }},
	{"mcp.request.name", cel.StringType, func(e *Event) any { return e.Name }},
	{"mcp.request.arguments", cel.DynType, func(e *Event) any { return decoded(e.Args) }},
	{"mcp.request.process_name", cel.StringType, func(e *Event) any { return e.Process }},
}

// httpRoots are those of a request to the proxy.
var httpRoots = []root{
	{"http.host", cel.StringType, func(e *Event) any { return e.Host }},
	{"http.port", cel.IntType, func(e *Event) any { return e.Port }},
	{"http.method", cel.StringType, func(e *Event) any { return e.Method }},
	{"http.path", cel.StringType, func(e *Event) any { return e.Path }},
	{"http.scheme", cel.StringType, func(e *Event) any { return e.Scheme }},
}

// A family is an event with the roots that conditions on it have.
type family struct {
	on    string
	roots []root
	env   func() (*cel.Env, error) // made once
}

// families are all of them.
var families = []family{
	newFamily(OnRequest, requestRoots),
	newFamily(OnHTTP, httpRoots),
}

func newFamily(on string, roots ...[]root) family {
	f := family{on: on, roots: common}
	for _, r := range roots {
		f.roots = append(f.roots[:len(f.roots):len(f.roots)], r...)
	}
	f.env = sync.OnceValues(func() (*cel.Env, error) {
		var options []cel.EnvOption
		for _, r := range f.roots {
			options = append(options, cel.Variable(r.name, r.kind))
		}
		return cel.NewEnv(options...)
	})
	return f
}

func familyNames() string {
	var names []string
	for _, f := range families {
		names = append(names, f.on)
	}
	return strings.Join(names, ", ")
}

// compile compiles a condition on the family's event.
func (f *family) compile(text string) (cel.Program, error) {
	env, err := f.env()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		e := issues.Errors()[0]
		return nil, fmt.Errorf("column %d: %s", e.Location.Column()+1, e.Message)
	}
	if t := ast.OutputType(); t != cel.BoolType && t != cel.DynType {
		return nil, fmt.Errorf("is of type %s: write a condition that is true or false", t)
	}
	return env.Program(ast, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptOptimize))
}

// eval returns what a condition says of an event.
func eval(program cel.Program, a *activation) (bool, error) {
	v, _, err := program.Eval(a)
	if err != nil {
		return false, err
	}
	is, ok := v.Value().(bool)
	if !ok {
		return false, errors.New("it is neither true nor false")
	}
	return is, nil
}

// An activation gives conditions the parts of an event. It remembers what was
// decoded for the rules that follow.
type activation struct {
	e    *Event
	args any
}

// ResolveName is for cel.
func (a *activation) ResolveName(name string) (any, bool) {
	if name == "mcp.request.arguments" {
		if a.args == nil {
			a.args = decoded(a.e.Args)
		}
		return a.args, true
	}
	for _, list := range [][]root{requestRoots, httpRoots, common} {
		for i := range list {
			if list[i].name == name {
				return list[i].value(a.e), true
			}
		}
	}
	return nil, false
}

// Parent is for cel.
func (a *activation) Parent() cel.Activation { return nil }

// decoded returns what JSON says, an empty table if it is none.
func decoded(text []byte) any {
	var v any
	if json.Unmarshal(text, &v) != nil || v == nil {
		return map[string]any{}
	}
	return v
}
