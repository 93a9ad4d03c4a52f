package policy

import (
	"encoding/json"
	"fmt"
	"strings"

	"cel.dev/cel-go/common/types/ref"

	"hutch/fs"
)

// The events that a policy decides: what a rule's "on" can name.
const (
	OnRequest  = "mcp.request"  // what a guest asks of a server
	OnResponse = "mcp.response" // what came of that
	OnAsk      = "mcp.ask"      // what a server asks of a guest
	OnFile     = "file"         // an operation on a file of the workspace
	OnExec     = "exec"         // a command that a guest asks the host for
	OnHTTP     = "http"         // a request to the proxy
)

// An Event is what a Policy decides. Its names in JSON are what a person reads
// who is asked, and what ParseEvent takes. Who asks is known by the connection, but
// for Process, which is what the guest says. It is decided by one caller at a
// time.
type Event struct {
	On        string `json:"on"`
	VM        string `json:"vm,omitempty"`
	Profile   string `json:"profile,omitempty"`
	Session   string `json:"session,omitempty"`   // of MCP; "": there is none
	Principal string `json:"principal,omitempty"` // who asks through the tree; "": the guest
	Process   string `json:"process,omitempty"`

	// Of MCP.
	Method   string          `json:"method,omitempty"` // of HTTP, too
	Server   string          `json:"server,omitempty"`
	Tool     string          `json:"tool,omitempty"`      // the tool's own name, without the server's; or a prompt's, or a resource's
	Name     string          `json:"name,omitempty"`      // the tool as the guest named it
	Known    bool            `json:"-"`                   // whether there is such a tool
	Arranged bool            `json:"-"`                   // Name is one that a group or a server's config gave it; by server__tool it is meant, too
	Args     json.RawMessage `json:"arguments,omitempty"` // a call's; all params of what a server asks
	Schema   json.RawMessage `json:"schema,omitempty"`    // what the tool takes, as its server says; nil: nobody knows
	Answer   json.RawMessage `json:"result,omitempty"`    // of OnResponse: the result, or the error object
	Failed   bool            `json:"is_error,omitempty"`  // of OnResponse: Answer is an error, or a result that says it is one
	Error    bool            `json:"-"`                   // of OnResponse: Answer is an error, whatever it says it is

	// Of files, and of HTTP.
	Operation string `json:"operation,omitempty"` // read write create delete list edit grep glob …
	Path      string `json:"path,omitempty"`
	Bytes     int64  `json:"bytes,omitempty"`

	// Of commands.
	Command string   `json:"command,omitempty"`
	Words   []string `json:"args,omitempty"` // its arguments
	Dir     string   `json:"-"`              // that it runs in, which relative paths start from; "": nobody knows

	// Of HTTP.
	Host   string `json:"host,omitempty"`
	Port   int    `json:"port,omitempty"`
	Scheme string `json:"scheme,omitempty"`

	Trace string `json:"trace_id,omitempty"` // that it is part of; nothing is decided by it

	Trial   bool `json:"-"` // nothing comes of it: it takes nothing from a rate
	Listing bool `json:"-"` // a trial without arguments: could there be a call that is allowed?

	passed    []*capability // that allow it, found out by their check
	rewritten *Decision     // of the first rule that changed it, with what all have made of it; nil: none has
	seen      struct {
		args, answer decoded
		values       []ref.Val // of roots, by their numbers; nil: not looked at
	}
}

// What returns what the event is about, on a line: a tool, a file, a command, a
// request.
func (e *Event) What() string {
	words := []string{e.On}
	switch e.On {
	case OnHTTP:
		words = []string{e.Method, fmt.Sprintf("%s:%d%s", e.Host, e.Port, e.Path)}
	case OnExec:
		words = append([]string{e.Command}, e.Words...)
	case OnFile:
		words = []string{e.Operation, e.Path}
	case OnAsk:
		words = []string{e.Server, "asks", e.Method}
	case OnRequest, OnResponse:
		words = []string{e.Name}
		if e.Method != "tools/call" {
			words = []string{e.Method, e.Name}
		}
		if e.On == OnResponse {
			words = append(words, "(its result)")
		}
	}
	for i, w := range words {
		words[i] = fs.QuoteLine(w)
	}
	return strings.Join(words, " ")
}

// size is how many bytes a condition can see of an event, and how many words.
func (e *Event) size() int {
	n := len(e.VM) + len(e.Profile) + len(e.Session) + len(e.Principal) + len(e.Process) +
		len(e.Method) + len(e.Server) + len(e.Tool) + len(e.Name) + len(e.Args) + len(e.Answer) +
		len(e.Operation) + len(e.Path) + len(e.Command) + len(e.Host) + len(e.Scheme)
	for _, word := range e.Words {
		n += len(word) + 1
	}
	return n
}
