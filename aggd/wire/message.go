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
	SetLimits     = "limits" // puts other Limits in force
)

// The params of hutch's own methods; the list_* methods take an optional
// {"client": key} too.
type (
	// ClientParams declares the capabilities an MCP client offers its servers, and
	// whether it speaks 2026-07-28: servers that speak both are spoken to as it is.
	ClientParams struct {
		Capabilities json.RawMessage `json:"capabilities"`
		Stateless    bool            `json:"stateless,omitempty"`
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

// TaskScheme begins the URI by which a host subscribes to the news of a task of
// 2026-07-28, as to those of a resource; the id follows.
const TaskScheme = "hutch-task:"

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

// A ServerRequest is a request that a server sent to its client (sampling,
// elicitation, roots), and tells what a Notification does. It is answered by a
// `reply` with its RID.
type ServerRequest struct {
	RID uint64 `json:"rid"`
	Notification
}

// An Answer is what a server answered, byte for byte: a result or an error object.
type Answer struct {
	Result, Error json.RawMessage
	Stateless     bool // of 2026-07-28
	Fate          Fate // of a request that has neither
}

// A Fate is what is known of a request that was not answered as MCP has it.
type Fate string

// The fates of requests.
const (
	NotSent Fate = ""        // nothing of it was written to the server
	Refused Fate = "refused" // the server did not take it
	Unknown Fate = "unknown" // it was, or may have been, written: nobody knows whether it was done
)

// fates are the data of errors that tell clients of a fate.
var fates = map[Fate]json.RawMessage{
	NotSent: json.RawMessage(`{"hutch/reached":false}`),
	Unknown: json.RawMessage(`{"hutch/reached":true}`),
}

// Data returns the data of an error of JSON-RPC that tells of the fate, nil where none does.
func (f Fate) Data() json.RawMessage { return fates[f] }

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
