package jsonrpc

import (
	"encoding/json"
	"slices"

	"hutch/aggd/rawjson"
)

// revisions are those of MCP that begin a session with initialize, oldest first.
var revisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", Newest}

// Newest is the last that begins a session.
const Newest = "2025-11-25"

// Stateless is the revision from which on there is no session: each request says
// itself, in its _meta, of what revision it is and what its client offers.
const Stateless = "2026-07-28"

// The members of _meta that are the protocol's own from Stateless on.
const (
	MetaRevision     = "io.modelcontextprotocol/protocolVersion"
	MetaClientInfo   = "io.modelcontextprotocol/clientInfo"
	MetaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaLevel        = "io.modelcontextprotocol/logLevel"
	MetaSubscription = "io.modelcontextprotocol/subscriptionId"
	MetaServerInfo   = "io.modelcontextprotocol/serverInfo"
)

// Speaks reports whether a session can be of the revision.
func Speaks(revision string) bool { return slices.Contains(revisions, revision) }

// Agree returns the revision that a server answers to a client that offers one.
func Agree(offered string) string {
	if Speaks(offered) {
		return offered
	}
	return Newest
}

// Spoken returns the revisions that hutch speaks as a JSON array, newest first.
func Spoken() json.RawMessage {
	list := append(slices.Clone(revisions), Stateless)
	slices.Reverse(list)
	b, _ := rawjson.Encode(list) // strings
	return b
}

// Levels are those of logging, the most talkative first.
var Levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
