package mcpd

import (
	"bytes"
	"io"
	"testing"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/mcpd/mcptest"
)

// openDoor returns the URL of a door to an endpoint, for a client that knows one of
// its servers alone: on the way the names of the server's things get the server's
// name, and lose it again.
func openDoor(t *testing.T, st *site, server string) string {
	d := &mcptest.Door{
		Start:   func() (io.Reader, io.WriteCloser) { return st.program(t, "conformance") },
		Inward:  func(m jsonrpc.Message, body []byte) []byte { return inward(st, server, m, body) },
		Outward: func(line []byte) []byte { return outward(server, line) },
	}
	return d.Open(t)
}

// inward gives the name of what a message of the client is about the server's.
func inward(st *site, server string, m jsonrpc.Message, body []byte) []byte {
	members := map[string][]string{
		"tools/call": {"name"}, "prompts/get": {"name"}, "resources/read": {"uri"},
		"resources/subscribe": {"uri"}, "resources/unsubscribe": {"uri"},
		"completion/complete": {"ref", "name"},
	}
	path := members[m.Method]
	if m.Method == "completion/complete" && rawjson.GetString(m.Params, "ref", "uri") != "" {
		path = []string{"ref", "uri"}
	}
	path = append([]string{"params"}, path...)
	name := rawjson.GetString(body, path...)
	switch {
	case name == "" || st.Endpoint.work.Has(name): // which the endpoint has itself
		return body
	case path[len(path)-1] == "uri":
		name = jsonrpc.URI(server, name)
	default:
		name = server + jsonrpc.Separator + name
	}
	return rawjson.Set(body, rawjson.Quote(name), path...)
}

// outward takes the server's name away again.
func outward(server string, line []byte) []byte {
	line = bytes.ReplaceAll(line, []byte(`"`+server+jsonrpc.Separator), []byte(`"`))
	return bytes.ReplaceAll(line, []byte(jsonrpc.URI(server, "")), nil)
}
