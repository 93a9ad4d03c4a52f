package composite

import (
	"strings"
	"testing"
)

func TestEntry(t *testing.T) {
	yes, no := true, false
	hints := map[string]*Annotations{
		"reader": {ReadOnly: &yes, Destructive: &no, OpenWorld: &no},
		"web":    {ReadOnly: &yes, Destructive: &no, OpenWorld: &yes},
		"writer": {ReadOnly: &no, Destructive: &no, OpenWorld: &no},
	}
	for _, row := range []struct{ text, want string }{
		{"steps: [{id: a, tool: reader}]", `"annotations":{"readOnlyHint":true,"destructiveHint":false,"openWorldHint":false}`},
		{"steps: [{id: a, tool: reader}, {id: b, tool: web}]", `"annotations":{"readOnlyHint":true,"destructiveHint":false,"openWorldHint":true}`},
		{"steps: [{id: a, tool: reader}, {id: b, type: forEach, collection: '[]', step: {tool: unknown}}]", `"annotations":{"readOnlyHint":false,"destructiveHint":true,"openWorldHint":true}`},
		{"steps: [{id: a, type: elicitation, message: m}]", `{"description":"d","inputSchema":{"type":"object","properties":{}},"name":"t"}`},
		{"steps: [{id: a, tool: writer}]\nannotations: {title: T, destructiveHint: true, idempotentHint: true}",
			`"annotations":{"title":"T","readOnlyHint":false,"destructiveHint":true,"idempotentHint":true,"openWorldHint":false}`},
		{"steps: [{id: a, tool: reader}, {id: b, tool: writer}]\nannotations: {readOnlyHint: true}", `readOnlyHint: true is safer than what the tool "writer" says of itself`},
		{"steps: [{id: a, tool: unknown}]\nannotations: {destructiveHint: false}", `destructiveHint: false is safer than what the tool "unknown" says of itself`},
		{"steps: [{id: a, tool: web}]\nannotations: {openWorldHint: false}", `openWorldHint: false is safer`},
		{"parameters: {type: object, properties: {n: {type: integer, maximum: 12345678901234567890}}}\nsteps: [{id: a, tool: reader}]", `"maximum":12345678901234567890`},
		{"steps: [{id: a, tool: reader}]\noutput: {required: [p], properties: {p: {type: integer, description: D, value: '1'}, o: {type: object, properties: {q: {type: string, value: x}}}}}",
			`"outputSchema":{"properties":{"o":{"properties":{"q":{"type":"string"}},"type":"object"},"p":{"description":"D","type":"integer"}},"required":["p"],"type":"object"}`},
	} {
		entry, err := compile(t, row.text).Entry(func(tool string) *Annotations { return hints[tool] })
		got := string(entry)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, row.want) {
			t.Errorf("%s\n got %s\nwant %s", row.text, got, row.want)
		}
	}
}
