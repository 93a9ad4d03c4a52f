package wire

import (
	"encoding/json"

	"hutch/aggd/rawjson"
)

// A List is one of the lists of the catalog.
type List struct {
	Method string // of the request for it
	Field  string // of the answer
	Name   string // what its items have a namespaced_ and an original_ one of

	// The list as MCP has it.
	MCP        string // the method of the request for it
	Result     string // the field of the result
	Own        string // the member that its items are known by
	Capability string // of the servers that have one
	Changed    string // the notification that it changed
}

// The lists of the catalog.
var (
	Tools     = &List{ListTools, "tools", "name", "tools/list", "tools", "name", "tools", "notifications/tools/list_changed"}
	Resources = &List{ListResources, "resources", "uri", "resources/list", "resources", "uri", "resources", "notifications/resources/list_changed"}
	Templates = &List{ListTemplates, "templates", "uri_template", "resources/templates/list", "resourceTemplates", "uriTemplate", "resources", "notifications/resources/list_changed"}
	Prompts   = &List{ListPrompts, "prompts", "name", "prompts/list", "prompts", "name", "prompts", "notifications/prompts/list_changed"}

	Lists = [...]*List{Tools, Resources, Templates, Prompts}
)

// An Item is one tool, resource, template or prompt.
type Item struct {
	Name     string // the guest's: server__name or capsem://server/uri
	Original string // its server's own
	Server   string
	Raw      json.RawMessage // the server's own object, byte for byte
	Schema   json.RawMessage // what a tool takes, where the endpoint has found it in Raw
	Held     *Hold           // the endpoint holds the tool back; nil: it does not
}

// A Hold is why a tool is held back, and what its server says of it.
type Hold struct {
	Why  string
	Said json.RawMessage
}

// Items returns the items in a line that answers the request for the list.
func (l *List) Items(line []byte) []Item {
	var items []Item
	for _, entry := range rawjson.Elements(rawjson.Get(line, l.Field)) {
		var it Item
		rawjson.Walk(entry, func(key []byte, start, end int) {
			value := entry[start:end]
			switch string(key) {
			case "namespaced_" + l.Name:
				it.Name = rawjson.String(value)
			case "original_" + l.Name:
				it.Original = rawjson.String(value)
			case "server_name":
				it.Server = rawjson.String(value)
			case "raw":
				it.Raw = value
			}
		})
		items = append(items, it)
	}
	return items
}
