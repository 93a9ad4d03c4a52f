package wire

import "encoding/json"

// The methods of a Request. The first nine are the reference's.
const (
	ListServers   = "list_servers"
	ListTools     = "list_tools"
	ListResources = "list_resources"
	ListPrompts   = "list_prompts"
	CallTool      = "call_tool"
	ReadResource  = "read_resource"
	GetPrompt     = "get_prompt"
	Refresh       = "refresh"
	Shutdown      = "shutdown"

	ListTemplates = "list_templates"
	Client        = "client" // declares a set of client capabilities
	RPC           = "rpc"    // any request of MCP, passed through
	Notify        = "notify" // any notification of MCP, passed through
	Cancel        = "cancel" // gives up a request that is under way
	Reply         = "reply"  // answers a ServerRequest
)

// A Request is a line to the aggregator.
type Request struct {
	ID     uint64          `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

// The params of hutch's own methods; the list_* methods take an optional
// {"client": key} too.
type (
	// ClientParams declares the capabilities an MCP client offers its servers.
	ClientParams struct {
		Capabilities json.RawMessage `json:"capabilities"`
	}
	// RPCParams addresses a request or a notification of MCP to one server.
	RPCParams struct {
		Client string          `json:"client,omitempty"` // a key that `client` gave; none means a client without capabilities
		Server string          `json:"server"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params,omitempty"`
	}
	// CancelParams names the request to give up.
	CancelParams struct {
		ID     uint64 `json:"id"`
		Reason string `json:"reason,omitempty"`
	}
	// ReplyParams answers the ServerRequest rid with one of the two.
	ReplyParams struct {
		RID    uint64          `json:"rid"`
		Result json.RawMessage `json:"result,omitempty"`
		Error  json.RawMessage `json:"error,omitempty"`
	}
	// RefreshParams is the new set of servers.
	RefreshParams struct {
		Servers []Server `json:"servers"`
	}
)

// A Response is a line from the aggregator with the outcome of a Request: either
// Error or the one field that fits the request's method.
type Response struct {
	ID        uint64          `json:"id"`
	Error     string          `json:"error,omitempty"`
	RPCError  json.RawMessage `json:"rpc_error,omitempty"` // the server's own error object, where Error tells of one
	Servers   json.RawMessage `json:"servers,omitempty"`
	Tools     json.RawMessage `json:"tools,omitempty"`
	Resources json.RawMessage `json:"resources,omitempty"`
	Templates json.RawMessage `json:"templates,omitempty"`
	Prompts   json.RawMessage `json:"prompts,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	OK        bool            `json:"ok,omitempty"`
	Client    string          `json:"client,omitempty"`
	Response  *Outcome        `json:"response,omitempty"`
}

// An Outcome is what a server answered to an rpc: one of the two, as it came.
type Outcome struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

// A Notification is one that a server sent. Call is the id of the request it
// belongs to, or 0, and Owner what the host gave with that request.
type Notification struct {
	Client string          `json:"client,omitempty"`
	Server string          `json:"server"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
	Call   uint64          `json:"call,omitempty"`
	Owner  any             `json:"-"`
}

// A ServerRequest is one that a server sent to its client (sampling, elicitation,
// roots). It is answered by a `reply` with its RID.
type ServerRequest struct {
	RID    uint64          `json:"rid"`
	Client string          `json:"client,omitempty"`
	Server string          `json:"server"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
	Call   uint64          `json:"call,omitempty"`
	Owner  any             `json:"-"`
}

// A Call is a request of MCP that the host makes through its child.
type Call struct {
	Client string // a key that Client gave, or ""
	Server string
	Method string
	Params json.RawMessage
	// Owner comes back in the notifications and requests that belong to the call.
	Owner any
	// Progress, where set, is given the params of the call's progress
	// notifications, with the token the call had. It must not block.
	Progress func(params json.RawMessage)
}
