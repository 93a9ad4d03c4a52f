package policy

// The events that a policy decides: what a rule's "on" can name.
const (
	OnRequest  = "mcp.request"  // what a guest asks of a server
	OnResponse = "mcp.response" // what came of that
	OnAsk      = "mcp.ask"      // what a server asks of a guest
	OnFile     = "file"         // an operation on a file of the workspace
	OnExec     = "exec"         // a command that a guest asks the host for
	OnHTTP     = "http"         // a request to the proxy
)

// An Event is what a Policy decides. Who asks is known by the connection, but
// for Process, which is what the guest says.
type Event struct {
	On        string
	VM        string
	Profile   string
	Session   string // of MCP; "": there is none
	Principal string // who asks through the tree; "": the guest
	Process   string

	// Of MCP.
	Method string // of HTTP, too
	Server string
	Tool   string // the tool's own name, without the server's; or a prompt's, or a resource's
	Name   string // the tool as the guest named it
	Known  bool   // whether there is such a tool
	Args   []byte // JSON: a call's arguments; all params of what a server asks
	Schema []byte // JSON: what the tool takes, as its server says; nil: nobody knows
	Answer []byte // of OnResponse, JSON: the result, or the error object
	Failed bool   // of OnResponse: Answer is an error, or a result that says it is one

	// Of files, and of HTTP.
	Operation string // read write create delete list edit grep glob …
	Path      string
	Bytes     int64

	// Of commands.
	Command string
	Words   []string // its arguments

	// Of HTTP.
	Host   string
	Port   int
	Scheme string
}
