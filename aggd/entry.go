package aggd

import (
	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

func text(raw []byte, key string) string { return rawjson.GetString(raw, key) }

// appendEntry appends what the catalog has of an item. What the server sent goes in
// by its bytes, for an encoder would change them.
func appendEntry(line []byte, l *wire.List, server string, raw []byte) []byte {
	own, name := text(raw, l.Own), jsonrpc.Name
	if l.Own != "name" {
		name = jsonrpc.URI
	}
	add := func(key string, value []byte) {
		line = append(append(append(line, '"'), key...), `":`...)
		line = append(append(line, value...), ',')
	}
	line = append(line, '{')
	add("namespaced_"+l.Name, rawjson.Quote(name(server, own)))
	add("original_"+l.Name, rawjson.Quote(own))
	add("server_name", rawjson.Quote(server))
	if l == wire.Prompts && rawjson.Get(raw, "arguments") == nil {
		add("arguments", []byte("[]"))
	}
	rawjson.Walk(raw, func(key []byte, start, end int) {
		value := raw[start:end]
		switch key := string(key); {
		case key == "name" && l.Own != key, key == "description":
			add(key, rawjson.Quote(rawjson.String(value)))
		case key == "mimeType":
			add("mime_type", rawjson.Quote(rawjson.String(value)))
		case key == "inputSchema" && l == wire.Tools:
			add("input_schema", value)
		case key == "arguments" && l == wire.Prompts:
			add(key, value)
		case key == "annotations" && l == wire.Tools:
			if hints, err := rawjson.Encode(annotations(value)); err == nil {
				add(key, hints)
			}
		}
	})
	add("raw", raw)
	line[len(line)-1] = '}'
	return line
}

// hints are a tool's annotations, with the protocol's defaults filled in.
type hints struct {
	Title           string `json:"title,omitempty"`
	ReadOnlyHint    bool   `json:"read_only_hint"`
	DestructiveHint bool   `json:"destructive_hint"`
	IdempotentHint  bool   `json:"idempotent_hint"`
	OpenWorldHint   bool   `json:"open_world_hint"`
}

func annotations(raw []byte) hints {
	hint := func(key string, otherwise bool) bool {
		switch string(rawjson.Get(raw, key)) {
		case "true":
			return true
		case "false":
			return false
		}
		return otherwise
	}
	return hints{
		Title:           text(raw, "title"),
		ReadOnlyHint:    hint("readOnlyHint", false),
		DestructiveHint: hint("destructiveHint", true),
		IdempotentHint:  hint("idempotentHint", false),
		OpenWorldHint:   hint("openWorldHint", true),
	}
}
