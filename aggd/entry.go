package aggd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// An entry encodes one item of a server's list as the host sees it.
type entry func(server string, raw []byte) any

var entries = [...]entry{toolEntry, resourceEntry, templateEntry, promptEntry}

func text(raw []byte, key string) string { return rawjson.GetString(raw, key) }

func toolEntry(server string, raw []byte) any {
	name := text(raw, "name")
	return wire.Tool{
		NamespacedName: server + separator + name,
		OriginalName:   name,
		Description:    text(raw, "description"),
		ServerName:     server,
		Annotations:    annotations(rawjson.Get(raw, "annotations")),
		Hash:           hash(raw),
	}
}

// annotations reads a tool's hints; a missing one has the protocol's default.
func annotations(raw []byte) *wire.Annotations {
	if raw == nil {
		return nil
	}
	hint := func(key string, otherwise bool) bool {
		switch string(rawjson.Get(raw, key)) {
		case "true":
			return true
		case "false":
			return false
		}
		return otherwise
	}
	return &wire.Annotations{
		Title:           text(raw, "title"),
		ReadOnlyHint:    hint("readOnlyHint", false),
		DestructiveHint: hint("destructiveHint", true),
		IdempotentHint:  hint("idempotentHint", false),
		OpenWorldHint:   hint("openWorldHint", true),
	}
}

func resourceEntry(server string, raw []byte) any { return resource(server, raw, "uri") }

func templateEntry(server string, raw []byte) any {
	return wire.Template(resource(server, raw, "uriTemplate"))
}

// resource reads a resource, or a template, which differs in what its URI is called.
func resource(server string, raw []byte, key string) wire.Resource {
	uri := text(raw, key)
	return wire.Resource{
		NamespacedURI: scheme + server + "/" + uri,
		OriginalURI:   uri,
		Name:          text(raw, "name"),
		Description:   text(raw, "description"),
		MIMEType:      text(raw, "mimeType"),
		ServerName:    server,
	}
}

func promptEntry(server string, raw []byte) any {
	name := text(raw, "name")
	arguments := json.RawMessage(rawjson.Get(raw, "arguments"))
	if arguments == nil {
		arguments = json.RawMessage("[]")
	}
	return wire.Prompt{
		NamespacedName: server + separator + name,
		OriginalName:   name,
		Description:    text(raw, "description"),
		Arguments:      arguments,
		ServerName:     server,
	}
}

// appendEntry appends the line of an item. What the server sent goes in by its
// bytes, for an encoder would change them.
func appendEntry(line []byte, k *kind, server string, raw []byte) []byte {
	fields, err := rawjson.Encode(entries[k.index](server, raw))
	if err != nil { // strings always encode
		return line
	}
	line = append(line, fields[:len(fields)-1]...)
	if schema := rawjson.Get(raw, "inputSchema"); k == tools && schema != nil {
		line = append(append(line, `,"input_schema":`...), schema...)
	}
	return append(append(append(line, `,"raw":`...), raw...), '}')
}

// hash returns the hash of a tool as its server gives it, whatever the order of
// its members.
func hash(raw []byte) string {
	var decoded any
	if json.Unmarshal(raw, &decoded) == nil {
		if canonical, err := json.Marshal(decoded); err == nil {
			raw = canonical
		}
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}
