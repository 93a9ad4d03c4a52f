package wire

import "encoding/json"

// A Tool is one tool in the catalog. Raw is the server's own object, byte for
// byte; the rest is read from it.
type Tool struct {
	NamespacedName string          `json:"namespaced_name"` // server__tool
	OriginalName   string          `json:"original_name"`
	Description    string          `json:"description,omitempty"`
	InputSchema    json.RawMessage `json:"input_schema,omitempty"`
	ServerName     string          `json:"server_name"`
	Annotations    *Annotations    `json:"annotations,omitempty"`
	Hash           string          `json:"hash,omitempty"` // of Raw; see Server.Pin
	Raw            json.RawMessage `json:"raw,omitempty"`
}

// Annotations are a tool's hints, with the protocol's defaults filled in.
type Annotations struct {
	Title           string `json:"title,omitempty"`
	ReadOnlyHint    bool   `json:"read_only_hint"`
	DestructiveHint bool   `json:"destructive_hint"`
	IdempotentHint  bool   `json:"idempotent_hint"`
	OpenWorldHint   bool   `json:"open_world_hint"`
}

// A Resource is one resource in the catalog.
type Resource struct {
	NamespacedURI string          `json:"namespaced_uri"` // capsem://server/uri
	OriginalURI   string          `json:"original_uri"`
	Name          string          `json:"name,omitempty"`
	Description   string          `json:"description,omitempty"`
	MIMEType      string          `json:"mime_type,omitempty"`
	ServerName    string          `json:"server_name"`
	Raw           json.RawMessage `json:"raw,omitempty"`
}

// A Template is one resource template in the catalog.
type Template struct {
	NamespacedURI string          `json:"namespaced_uri_template"` // capsem://server/template
	OriginalURI   string          `json:"original_uri_template"`
	Name          string          `json:"name,omitempty"`
	Description   string          `json:"description,omitempty"`
	MIMEType      string          `json:"mime_type,omitempty"`
	ServerName    string          `json:"server_name"`
	Raw           json.RawMessage `json:"raw,omitempty"`
}

// A Prompt is one prompt in the catalog.
type Prompt struct {
	NamespacedName string          `json:"namespaced_name"` // server__prompt
	OriginalName   string          `json:"original_name"`
	Description    string          `json:"description,omitempty"`
	Arguments      json.RawMessage `json:"arguments"`
	ServerName     string          `json:"server_name"`
	Raw            json.RawMessage `json:"raw,omitempty"`
}
