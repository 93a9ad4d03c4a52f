package composite

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzTemplate fills templates of any text: they end, within their bounds.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{
		"{{.params.n}}", "{{range $i, $x := .params.list}}{{$i}}{{json $x}}{{end}}", `{{printf "%5.2f %v" .params.f .params.list}}`,
		"{{$x := \"ab\"}}{{range 60}}{{$x = print $x $x}}{{end}}", "{{range 1000000000000}}{{end}}", "{{(fromJson .params.text).id}}",
		`{{with index .steps "my-step"}}{{.output.id | quote}}{{else}}{{break}}{{end}}`, `{{define "line"}}{{template "line"}}{{end}}`,
		`{{if and (eq .params.n 3) (gt .params.big 1.5)}}{{html .params.object}}{{end}}`, "{{slice .params.s 0 1 | urlquery}}",
		"{{range .params.object}}{{range $.params.object}}{{.}}{{end}}{{end}}", "{{.params.big.Float64}}", "{{1i}}{{'a'}}{{1e400}}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		began := time.Now()
		made, err := fillOf(t, text)
		if err == nil && len(made) > MaxMade {
			t.Errorf("%q makes %d bytes", text, len(made))
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%q takes %v", text, took)
		}
	})
}

// FuzzDefinition compiles and runs definitions of any text, whose tools give back
// what they get.
func FuzzDefinition(f *testing.F) {
	report, err := os.ReadFile("testdata/report.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{
		string(report),
		"{name: a, description: d, steps: [{id: a, tool: x, arguments: {b: '{{.params.p}}'}}]}",
		"{name: a, description: d, steps: [{id: a, type: elicitation, message: m, onDecline: {action: skip_remaining}}, {id: b, tool: x, dependsOn: [a]}]}",
		"{name: a, description: d, steps: [{id: a, type: forEach, collection: '[1,[2],{}]', step: {tool: x, arguments: {v: '{{json .forEach}}'}}}], output: {properties: {p: {type: object, value: '{{json .steps.a.output}}', default: {}}}}}",
		"{name: a, description: d, steps: [{id: a, tool: x, dependsOn: [b]}, {id: b, tool: x, dependsOn: [a]}]}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Parse(text)
		if err != nil {
			return
		}
		for i := range d.Steps { // nobody waits for these
			d.Steps[i].OnError = nil
		}
		tool, err := Compile(d, nil)
		if err != nil {
			if !utf8.ValidString(err.Error()) {
				t.Errorf("error %q", err)
			}
			return
		}
		if entry, err := tool.Entry(func(string) *Annotations { return nil }); err == nil && !json.Valid(entry) {
			t.Errorf("entry %s", entry)
		}
		result, err := tool.Run(t.Context(), nil, Caller{
			Call: func(_ context.Context, _ string, arguments json.RawMessage) (json.RawMessage, error) {
				if !json.Valid(arguments) || arguments[0] != '{' {
					t.Errorf("arguments %s", arguments)
				}
				return json.RawMessage(structured(string(arguments))), nil
			},
			Ask: func(context.Context, string, json.RawMessage) (string, json.RawMessage, error) {
				return "decline", nil, nil
			},
		})
		if err != nil || !json.Valid(result) {
			t.Errorf("result %s, %v", result, err)
		}
	})
}

// FuzzResult reads results of any bytes.
func FuzzResult(f *testing.F) {
	f.Add([]byte(text("a")))
	f.Add([]byte(isError("b")))
	f.Add([]byte(structured(`{"n":1e999,"l":[1,2.5,12345678901234567890]}`)))
	f.Add([]byte(`{"content":[{"type":"resource","resource":{"blob":"b"}},{"type":"image","data":"d"}],"isError":null}`))
	f.Fuzz(func(t *testing.T, result []byte) {
		o := readResult(result)
		if o.err == nil {
			if _, err := marshal(o.output); err != nil {
				t.Error(err)
			}
		}
	})
}
