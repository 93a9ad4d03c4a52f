package runconfig

import (
	"maps"
	"strconv"
	"time"

	"hutch/profiles/permission"
	"hutch/profiles/reference"
)

// A Server is an MCP server as hutch runs it.
type Server struct {
	Name      string
	Group     string // "": none is named
	Source    Source // Named is for who has a registry: a Config has an Image; the zero Source: nobody has said it yet
	Entry     string // of a registry, that Source is of; "": none
	Args      []string
	Transport string // one of the constants
	Port      int    // where in its VM a server listens that speaks HTTP; 0: DefaultPort

	Env     map[string]string // whose values may be references
	Secrets []Secret          // in variables, too; they go before Env

	Permission string              // the name or path of a permission profile; "": none is named
	Profile    *permission.Profile // goes before Permission; nil: none is said
	Mounts     []permission.Mount  // beside those of the permission profile

	// Tools are those that exist for callers, by the names that Overrides gives
	// them; nil: all.
	Tools     []string
	Overrides map[string]Override // by the server's own names

	Headers       map[string]string              // of requests to it
	SecretHeaders map[string]reference.Reference // likewise
	Auth          *Auth                          // of a remote server; nil: nothing is said

	Labels   map[string]string
	NoHealth bool // it is not asked whether it is well
	NoGroup  bool // it is in none, unless Group names one

	RAM, Disk int64 // that its sandbox may have, in bytes; 0: what there is
}

// How a server is spoken to.
const (
	Stdio      = "stdio"
	SSE        = "sse"
	Streamable = "streamable-http"
)

// DefaultPort is where a server listens that speaks HTTP if nothing else is said.
const DefaultPort = 8080

// A Secret is a secret that a server has in a variable of its environment.
type Secret struct {
	Reference reference.Reference
	Variable  string
}

// An Override is what callers see in place of what a tool says of itself; what is
// "" stays.
type Override struct {
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
}

// Auth is how hutch proves who it is to a remote server: by Bearer, or else by
// OAuth 2.1, of which it finds out what is not said. Secrets are references; the
// zero Reference is none.
type Auth struct {
	Bearer       reference.Reference
	ClientID     string
	ClientSecret reference.Reference
	Scopes       []string
	ScopeParam   string // what the parameter with the scopes is called; "": scope
	Issuer       string
	AuthorizeURL string
	TokenURL     string
	Resource     string            // RFC 8707
	Params       map[string]string // more, of the authorization request
	CallbackPort int               // 0: any
	Timeout      time.Duration     // of a login; 0: nothing is said
}

// IsRemote tells whether the server runs elsewhere.
func (s *Server) IsRemote() bool { return s.Source.Kind == Remote }

// Permissions returns the permission profile that holds for the server: the one
// that is said, the one that is named, or else the built-in none.
func (s *Server) Permissions() (*permission.Profile, error) {
	switch {
	case s.Profile != nil:
		return s.Profile, nil
	case s.Permission != "":
		return permission.Load(s.Permission)
	}
	return permission.Builtin(permission.BuiltinNone), nil
}

// Environment returns Env with the variables by which a server is told how it is
// spoken to, which go before it, as ToolHive has it. Secrets are not in it.
func (s *Server) Environment() map[string]string {
	env := make(map[string]string, len(s.Env)+4)
	maps.Copy(env, s.Env)
	env["MCP_TRANSPORT"] = s.Transport
	if s.Transport != Stdio {
		port := s.Port
		if port == 0 {
			port = DefaultPort
		}
		env["MCP_PORT"] = strconv.Itoa(port)
		env["FASTMCP_PORT"] = env["MCP_PORT"]
		env["MCP_HOST"] = "127.0.0.1"
	}
	return env
}
