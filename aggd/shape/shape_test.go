package shape

import (
	"strings"
	"testing"

	"hutch/aggd/wire"
)

// What the standard forbids of an item, and what it lets be.
func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		list *wire.List
		raw  string
		want string // in the error; "": there is none
	}{
		{wire.Tools, `{"name":"a","inputSchema":{"type":"object"}}`, ""},
		{wire.Tools, `{ "x-new":null, "name" : "a" ,"inputSchema":{"type":"object","properties":{"p":{"type":"string"},"q":{}},"required":["p"],"$defs":true},
			"outputSchema":{"type":"object"},"title":"","description":"","annotations":{"title":"T","readOnlyHint":true,"x":1},"_meta":{"a":null},
			"icons":[{"src":"data:","sizes":["any"],"theme":"dark"}],"execution":{"taskSupport":"optional"}}`, ""},
		{wire.Tools, `null`, "null is not an object"},
		{wire.Tools, `[]`, "[] is not an object"},
		{wire.Tools, `{}`, "it has no name"},
		{wire.Tools, `{"name":"a"}`, "it has no inputSchema"},
		{wire.Tools, `{"inputSchema":{"type":"object"}}`, "it has no name"},
		{wire.Tools, `{"name":"","inputSchema":{"type":"object"}}`, "name: it is empty"},
		{wire.Tools, `{"name":7,"inputSchema":{"type":"object"}}`, "name: 7 is not a text"},
		{wire.Tools, `{"name":"` + strings.Repeat("n", maxName+1) + `","inputSchema":{"type":"object"}}`, "name: it has 1025 bytes, at most 1024"},
		{wire.Tools, `{"name":"a","inputSchema":null}`, "inputSchema: null is not an object"},
		{wire.Tools, `{"name":"a","inputSchema":true}`, "inputSchema: true is not an object"},
		{wire.Tools, `{"name":"a","inputSchema":"object"}`, `inputSchema: "object" is not an object`},
		{wire.Tools, `{"name":"a","inputSchema":[]}`, "inputSchema: [] is not an object"},
		{wire.Tools, `{"name":"a","inputSchema":{}}`, "inputSchema: it has no type"},
		{wire.Tools, `{"name":"a","inputSchema":{"type":["object"]}}`, `inputSchema: type: ["object"] is not "object"`},
		{wire.Tools, `{"name":"a","inputSchema":{"type":"object","properties":[]}}`, "inputSchema: properties: [] is not an object"},
		{wire.Tools, `{"name":"a","inputSchema":{"type":"object","properties":{"p":null}}}`, "inputSchema: properties: p: null is not an object"},
		{wire.Tools, `{"name":"a","inputSchema":{"type":"object","required":"p"}}`, `inputSchema: required: "p" is not an array`},
		{wire.Tools, `{"name":"a","inputSchema":{"type":"object"},"description":null}`, "description: null is not a text"},
		{wire.Tools, `{"name":"a","inputSchema":{"type":"object"},"description":["x"]}`, `description: ["x"] is not a text`},
		{wire.Tools, `{"name":"a","inputSchema":{"type":"object"},"annotations":"x"}`, `annotations: "x" is not an object`},
		{wire.Tools, `{"name":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":"true"}}`, `annotations: readOnlyHint: "true" is not true or false`},
		{wire.Tools, `{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}`, `outputSchema: type: "array" is not "object"`},
		{wire.Tools, `{"name":"a","inputSchema":{"type":"object"},"icons":{"src":"x"}}`, "icons: {"},
		{wire.Tools, `{"name":"a","inputSchema":{"type":"object"},"icons":[{"url":"x"}]}`, "icons: it has no src"},
		{wire.Tools, `{"name":"a","inputSchema":{"type":"object"},"_meta":[]}`, "_meta: [] is not an object"},
		{wire.Tools, `{"name":"a","inputSchema":{"type":"object"},"execution":{"taskSupport":"never"}}`, `execution: taskSupport: "never" is not "required" or "optional" or "forbidden"`},

		{wire.Prompts, `{"name":"p"}`, ""},
		{wire.Prompts, `{"name":"p","arguments":[{"name":"a","required":true,"description":"x"}]}`, ""},
		{wire.Prompts, `{"name":"p","arguments":{"a":"x"}}`, "arguments: {"},
		{wire.Prompts, `{"name":"p","arguments":[{"description":"x"}]}`, "arguments: it has no name"},
		{wire.Prompts, `{"name":"p","arguments":[{"name":"a","required":"yes"}]}`, `arguments: required: "yes" is not true or false`},

		{wire.Resources, `{"uri":"file:\/\/\/x","name":"x","size":12,"mimeType":"text/plain","annotations":{"audience":["user"],"priority":0.5,"lastModified":"2025-01-12T15:00:58Z"}}`, ""},
		{wire.Resources, `{"uri":"a:\nb","name":"x"}`, ""},
		{wire.Resources, `{"uri":"file:///x"}`, "it has no name"},
		{wire.Resources, `{"name":"x"}`, "it has no uri"},
		{wire.Resources, `{"uri":"/etc/hosts","name":"x"}`, `uri: "/etc/hosts" is not a URI`},
		{wire.Resources, `{"uri":"a:b","name":"x","size":"12"}`, `size: "12" is not an integer`},
		{wire.Resources, `{"uri":"a:b","name":"x","size":1.5}`, "size: 1.5 is not an integer"},
		{wire.Resources, `{"uri":"a:b","name":"x","annotations":{"priority":7}}`, "annotations: priority: 7 is not a number from 0 to 1"},
		{wire.Resources, `{"uri":"a:b","name":"x","annotations":{"audience":["robot"]}}`, `annotations: audience: "robot" is not "user" or "assistant"`},
		{wire.Resources, `{"uri":"a:b","name":"x","annotations":{"lastModified":"yesterday"}}`, `annotations: lastModified: "yesterday" is not an ISO 8601 time`},

		{wire.Templates, `{"uriTemplate":"{+path}","name":"t"}`, ""},
		{wire.Templates, `{"uriTemplate":"","name":"t"}`, "uriTemplate: it is empty"},
		{wire.Templates, `{"name":"t"}`, "it has no uriTemplate"},
	} {
		err := Check(tt.list, []byte(tt.raw), false)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
			t.Errorf("%s %s: %v, want %q", tt.list.Field, tt.raw, err, tt.want)
		}
	}
	if err := Check(wire.Tools, []byte(`{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}`), true); err != nil {
		t.Error(err)
	}
}
