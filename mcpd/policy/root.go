package policy

import (
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// A root is a name that conditions have for a part of an event.
type root struct {
	name  string
	kind  *cel.Type
	value func(*Event) any
}

var table = cel.MapType(cel.StringType, cel.DynType)

// everyRoots are those of every event.
var everyRoots = []root{
	{"vm.name", cel.StringType, func(e *Event) any { return e.VM }},
	{"vm.profile", cel.StringType, func(e *Event) any { return e.Profile }},
	{"session", cel.StringType, func(e *Event) any { return e.Session }},
	{"principal", cel.StringType, func(e *Event) any { return e.Principal }},
}

// requestRoots are those of what is asked over MCP, and of what came of it.
var requestRoots = []root{
	{"mcp.request.method", cel.StringType, func(e *Event) any { return e.Method }},
	{"mcp.request.server_name", cel.StringType, func(e *Event) any { return e.Server }},
	{"mcp.request.tool_name", cel.StringType, func(e *Event) any { return e.Tool }},
	{"mcp.request.name", cel.StringType, func(e *Event) any { return e.Name }},
	{"mcp.request.arguments", table, (*Event).arguments},
	{"mcp.request.process_name", cel.StringType, func(e *Event) any { return e.Process }},
}

var responseRoots = []root{
	{"mcp.response.is_error", cel.BoolType, func(e *Event) any { return e.status() != statusOK }},
	{"mcp.response.result_status", cel.StringType, func(e *Event) any { return e.status() }},
	{"mcp.response.content", cel.ListType(cel.DynType), (*Event).content},
	{"mcp.response.structured", cel.DynType, (*Event).structured},
	{"mcp.response.bytes", cel.IntType, func(e *Event) any { return int64(len(e.Answer)) }},
}

// askRoots are those of what a server asks of the guest.
var askRoots = []root{
	{"mcp.ask.method", cel.StringType, func(e *Event) any { return e.Method }},
	{"mcp.ask.server_name", cel.StringType, func(e *Event) any { return e.Server }},
	{"mcp.ask.params", table, (*Event).arguments},
	{"mcp.ask.process_name", cel.StringType, func(e *Event) any { return e.Process }},
}

var fileRoots = []root{
	{"file.operation", cel.StringType, func(e *Event) any { return e.Operation }},
	{"file.path", cel.StringType, func(e *Event) any { return e.Path }},
	{"file.bytes", cel.IntType, func(e *Event) any { return e.Bytes }},
}

var execRoots = []root{
	{"exec.command", cel.StringType, func(e *Event) any { return e.Command }},
	{"exec.args", cel.ListType(cel.StringType), func(e *Event) any { return e.Words }},
}

// httpRoots are those of a request to the proxy.
var httpRoots = []root{
	{"http.host", cel.StringType, func(e *Event) any { return e.Host }},
	{"http.port", cel.IntType, func(e *Event) any { return e.Port }},
	{"http.method", cel.StringType, func(e *Event) any { return e.Method }},
	{"http.path", cel.StringType, func(e *Event) any { return e.Path }},
	{"http.scheme", cel.StringType, func(e *Event) any { return e.Scheme }},
}

// wordsOf are the words that a root can be, where it can be no others.
var wordsOf = map[string][]string{"mcp.response.result_status": {statusOK, statusFailed, statusError}}

// A family is an event with the roots that conditions on it have.
type family struct {
	on    string
	roots []root
	env   func() (*cel.Env, error) // made once
}

// families are all of them.
var families = []family{
	newFamily(OnRequest, requestRoots),
	newFamily(OnResponse, responseRoots, requestRoots),
	newFamily(OnAsk, askRoots),
	newFamily(OnFile, fileRoots),
	newFamily(OnExec, execRoots),
	newFamily(OnHTTP, httpRoots),
}

func newFamily(on string, roots ...[]root) family {
	f := family{on: on, roots: slices.Concat(append(roots, everyRoots)...)}
	f.env = sync.OnceValues(func() (*cel.Env, error) {
		options := []cel.EnvOption{
			cel.ParserExpressionSizeLimit(maxText), cel.ParserRecursionLimit(maxNest),
			cel.ExpressionNodeLimit(maxNodes), cel.RegexProgramSizeLimit(maxRegex),
			cel.ASTValidators(cel.ValidateRegexLiterals()),
		}
		for _, r := range f.roots {
			options = append(options, cel.Variable(r.name, r.kind))
		}
		return cel.NewEnv(options...)
	})
	return f
}

// findFamily returns the family of an event, nil if there is none.
func findFamily(on string) *family {
	for i := range families {
		if families[i].on == on {
			return &families[i]
		}
	}
	return nil
}

func familyNames() string {
	var names []string
	for _, f := range families {
		names = append(names, f.on)
	}
	return strings.Join(names, ", ")
}

func (f *family) rootNames() string {
	var names []string
	for _, r := range f.roots {
		names = append(names, r.name)
	}
	return strings.Join(names, " ")
}

// values are those of the roots of all families, with their numbers.
var values = make(map[string]numbered)

// A numbered is the value of a root, for an event that remembers it by number.
type numbered struct {
	value  func(*Event) any
	number int
}

func init() {
	for _, f := range families {
		for _, r := range f.roots {
			if _, ok := values[r.name]; !ok {
				values[r.name] = numbered{r.value, len(values)}
			}
		}
	}
}

// An activation gives conditions the parts of an event. What one of them looked
// at is there for the next.
type activation Event

// ResolveName is for cel.
func (a *activation) ResolveName(name string) (any, bool) {
	root, ok := values[name]
	if !ok {
		return nil, false
	}
	if a.seen.values == nil {
		a.seen.values = make([]ref.Val, len(values))
	}
	v := &a.seen.values[root.number]
	if *v == nil {
		*v = types.DefaultTypeAdapter.NativeToValue(root.value((*Event)(a)))
	}
	return *v, true
}

// Parent is for cel.
func (a *activation) Parent() cel.Activation { return nil }
