// Package wire defines the lines that pass between a host and its aggregator
// child: newline-ended JSON, as Capsem's aggregator has it, with hutch's
// additions.
//
// The first line to the child is an array of Server. Every further line to it is
// a request, and every line from it is the answer with the request's id, a
// Notification or a ServerRequest. Answers come in any order. See aggd(8).
package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"hutch/fs/quantity"
)

// Lost is the method of the Notification that a server's connection ended of
// itself, or its program did. Its params have the reason. No server can send it.
const Lost = "hutch/lost"

// StateChanged is the method of the Notification that a kept server may have
// another State than before. It has no Params.
const StateChanged = "hutch/state"

// Local is the name of the server of built-in tools.
const Local = "local"

// RefusedMeta is the member of a result's _meta that says that the tool refused what was
// asked for, and did not fail.
const RefusedMeta = "hutch/refused"

// A Server is one MCP server as the host defines it. The fields up to
// UnsupportedStdio are the reference's, the others are hutch's.
type Server struct {
	Name             string            `json:"name"`
	URL              string            `json:"url"`
	Headers          map[string]string `json:"headers"`
	BearerToken      string            `json:"bearer_token,omitempty"`
	Enabled          bool              `json:"enabled"` // true where a line does not say
	Source           string            `json:"source"`
	UnsupportedStdio bool              `json:"unsupported_stdio"`

	Type string `json:"type,omitempty"` // stdio, http, streamable-http or sse; found out where empty

	// Program is that of a stdio server, or of one that listens on a Port in its
	// sandbox and has a URL there. The aggregator gets the Descriptor in its place.
	Program    `json:"-"`
	Descriptor string `json:"descriptor,omitempty"` // the key by which the host starts the program
	Shared     bool   `json:"shared,omitempty"`     // one connection serves clients of all capabilities

	// Keep has a stdio server start at once, be tried again when it fails though
	// nobody asks, and never stop for being unused, as servers over HTTP are.
	Keep bool `json:"keep,omitempty"`
	// Health is how often a server is asked whether it answers; 0: never, or every 30
	// seconds if it is reached over HTTP and not kept.
	Health Duration `json:"health,omitempty"`

	IdleTimeout    Duration `json:"idle_timeout,omitempty"`    // a stdio server unused for so long is stopped
	ConnectTimeout Duration `json:"connect_timeout,omitempty"` // to start, initialize and list
	CallTimeout    Duration `json:"call_timeout,omitempty"`

	// Renewed says that the host replaces the BearerToken by others of the same login:
	// that costs no connection, and the Status says which the server refuses.
	Renewed bool `json:"renewed,omitempty"`

	// Fault is why the server is not to be connected, which the host has found.
	Fault string `json:"fault,omitempty"`

	// AllowedTools, where not nil, are the tools of the server, by their own
	// names, that exist for the host; the others are neither listed nor called.
	AllowedTools []string `json:"allowed_tools,omitempty"`

	Pin  Pin  `json:"-"` // the host's affair
	Ours bool `json:"-"` // it is an endpoint of the host's own, whose word of fates counts
}

// A Pin says which tools of a server the host holds back until somebody approves
// them.
type Pin string

// The pins of servers.
const (
	PinChanged Pin = ""       // those that changed since they were approved, or seen first
	PinStrict  Pin = "strict" // also those that the first list did not have
	PinNone    Pin = "none"
)

// UnmarshalJSON takes a server as enabled unless it says otherwise, and one that
// has a command and no descriptor as a stdio server that the host does not start.
func (s *Server) UnmarshalJSON(data []byte) error {
	type plain Server
	p := struct {
		plain
		Command string `json:"command"`
	}{plain: plain{Enabled: true}}
	if err := json.Unmarshal(data, &p); err != nil {
		return err
	}
	*s = Server(p.plain)
	s.UnsupportedStdio = s.UnsupportedStdio || p.Command != "" && s.URL == "" && s.Descriptor == ""
	return nil
}

// Stdio reports whether the server is a program to start.
func (s Server) Stdio() bool {
	return (s.Command != "" || s.Sandbox != "" || s.Descriptor != "") && s.URL == "" || s.Type == "stdio"
}

// Started reports whether the host starts a program for the server.
func (s Server) Started() bool {
	return (s.Command != "" || s.Sandbox != "") && (s.Stdio() || s.Port != 0)
}

// A Duration is written as "1m30s"; a bare number means seconds.
type Duration time.Duration

// MarshalJSON writes d as Go does.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(d).String())
}

// UnmarshalJSON reads a time, or a number of seconds.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var seconds float64
	if json.Unmarshal(data, &seconds) == nil {
		*d = Duration(seconds * float64(time.Second))
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("duration %s: %w", data, err)
	}
	parsed, err := quantity.Time(text)
	if err != nil {
		return fmt.Errorf("duration: %w", err)
	}
	*d = Duration(parsed)
	return nil
}

// The states of a server.
const (
	Starting    = "starting"
	Connected   = "connected"
	Degraded    = "degraded"    // connected, and does not give a list, or to some; Status.Error says why
	Unhealthy   = "unhealthy"   // connected, and does not answer; Status.Error says how
	Failed      = "failed"      // Status.Error says why; tried again with back-off
	Stopped     = "stopped"     // a program that runs when it is needed
	Unsupported = "unsupported" // a program the host may not run, or a transport that does not exist
	Disabled    = "disabled"
)

// A Status is a server as list_servers gives it. The fields up to PromptCount are the
// reference's, the others are hutch's.
type Status struct {
	Name          string `json:"name"`
	URL           string `json:"url"`
	Enabled       bool   `json:"enabled"`
	Source        string `json:"source"`
	IsStdio       bool   `json:"is_stdio"`
	Connected     bool   `json:"connected"`
	ToolCount     int    `json:"tool_count"`
	ResourceCount int    `json:"resource_count"`
	PromptCount   int    `json:"prompt_count"`

	State           string   `json:"state"`
	Error           string   `json:"error,omitempty"`
	ProtocolVersion string   `json:"protocol_version,omitempty"`
	TemplateCount   int      `json:"template_count,omitempty"`
	Instructions    string   `json:"instructions,omitempty"`
	LeftOut         []string `json:"left_out,omitempty"` // items of its lists, and why
	Refused         string   `json:"refused,omitempty"`  // the TokenHash of the token, or of none, that the server refuses with HTTP 401; "": it does not

	// What the server said of itself at initialize, as it came.
	Capabilities json.RawMessage `json:"capabilities,omitempty"`
	ServerInfo   json.RawMessage `json:"server_info,omitempty"`
}

// TokenHash returns what stands for a token where that is not to be told.
func TokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:8])
}

// Status returns the status of a server that has no connection.
func (s Server) Status(state string, cause error) Status {
	st := Status{Name: s.Name, URL: s.URL, Enabled: s.Enabled, Source: s.Source, IsStdio: s.Stdio(), State: state}
	if cause != nil {
		st.Error = cause.Error()
	}
	return st
}
