package composite

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// parsed reads a definition of the tests, which may leave out what each has.
func parsed(t testing.TB, text string) *Definition {
	t.Helper()
	if !strings.Contains(text, "name:") || strings.HasPrefix(text, "steps:") {
		text = "name: t\ndescription: d\n" + text
	}
	d, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return d
}

func compile(t testing.TB, text string) *Tool {
	t.Helper()
	tool, err := Compile(parsed(t, text), nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return tool
}

func TestCompile(t *testing.T) {
	text, err := os.ReadFile("testdata/report.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tool := compile(t, string(text))
	if got := fmt.Sprint(tool.Name(), tool.Tools()); got != "report[mail.send oci.packages osv.query]" {
		t.Error(got)
	}
	var order []string
	for _, s := range tool.steps {
		order = append(order, s.id)
	}
	if got := strings.Join(order, " "); got != "packages vulns send" {
		t.Error(got)
	}
}

func TestCompileRefuses(t *testing.T) {
	many := "steps:\n"
	for i := range 101 {
		many += fmt.Sprintf("- {id: s%d, tool: a.b}\n", i)
	}
	for _, row := range []struct{ text, want string }{
		{"steps: []", "steps: want one at least"},
		{many, "steps: there are 101, at most 100"},
		{"name: A\ndescription: d\nsteps: [{id: a, tool: x}]", `composite tool "A": name: want`},
		{"name: -a\ndescription: d\nsteps: [{id: a, tool: x}]", "name: want"},
		{"name: a__b\ndescription: d\nsteps: [{id: a, tool: x}]", ""},
		{"name: " + strings.Repeat("a", 65) + "\ndescription: d\nsteps: [{id: a, tool: x}]", "name: want at most 64"},
		{"name: a\nsteps: [{id: a, tool: x}]", "description: say what the tool does"},
		{"steps: [{id: a, tool: x}]\ntimeout: -1s", "timeout: -1s is less than nothing"},
		{"steps: [{id: a, tool: x}]\ntimeout: 25h", "timeout: 25h0m0s is more than 24h0m0s"},
		{"steps: [{id: a, tool: x}]\nparameters: {type: string}", `parameters: want a JSON Schema of type "object"`},
		{"steps: [{id: a, tool: x}]\nparameters: [object]", `parameters: want a JSON Schema of type "object"`},
		{"steps: [{id: a, tool: x}]\nparameters: {type: object, properties: {a: {type: text}}}", "parameters: "},
		{"steps: [{id: a, tool: x}]\nparameters: {type: object, properties: {a: {$ref: 'http://x/y'}}}", "is elsewhere"},

		{"steps: [{tool: x}]", "step number 1: id: want"},
		{"steps: [{id: 'a b', tool: x}]", `step "a b": id: want`},
		{"steps: [{id: a, tool: x}, {id: a, tool: y}]", `step "a": there are two of this id`},
		{"steps: [{id: a, tool: x, dependsOn: [b]}]", `step "a": dependsOn: there is no step "b"`},
		{"steps: [{id: a, tool: x, dependsOn: [a]}]", `step "a": it waits for itself: a after a`},
		{"steps: [{id: a, tool: x, dependsOn: [c]}, {id: b, tool: x, dependsOn: [a]}, {id: c, tool: x, dependsOn: [b]}]",
			`step "a": it waits for itself: a after c after b after a`},
		{"steps: [{id: a, type: script, tool: x}]", `step "a": type: "script": want tool, elicitation or forEach`},
		{"steps: [{id: a, type: tool}]", `step "a": tool: say which one to call`},
		{"steps: [{id: a, tool: 'x y'}]", `step "a": tool: "x y" is no name of a tool`},
		{"steps: [{id: a, tool: nobody.knows}]", `step "a": tool: there is no "nobody.knows"`},
		{"steps: [{id: a, tool: x, message: hello}]", `step "a": message: a step of the type tool has none`},
		{"steps: [{id: a, type: elicitation, message: hello, tool: x}]", "tool: a step of the type elicitation has none"},
		{"steps: [{id: a, tool: x, maxIterations: 4}]", "maxIterations: a step of the type tool has none"},
		{"steps: [{id: a, tool: x, timeout: 48h}]", `step "a": timeout: 48h0m0s is more than`},

		{"steps: [{id: a, tool: x, onError: {action: ignore}}]", `step "a": onError: action: "ignore": want abort or continue or retry here`},
		{"steps: [{id: a, tool: x, onError: {action: retry}}]", "onError: retryCount: 0: want 1 at least"},
		{"steps: [{id: a, tool: x, onError: {retryCount: 2}}]", `want the action "retry"`},
		{"steps: [{id: a, tool: x, onError: {action: retry, retryCount: 1, retryDelay: 48h}}]", "onError: retryDelay: 48h0m0s is more"},
		{"steps: [{id: a, tool: x, onError: {action: retry, retryCount: 100}}]", ""}, // counts as 10

		{"steps: [{id: a, tool: x, condition: '{{if}}'}]", `step "a": condition: line:1: missing value for if`},
		{"steps: [{id: a, tool: x, condition: '{{.nope}}'}]", `step "a": condition: line:1:2: there is no .nope here`},
		{"steps: [{id: a, tool: x, arguments: [1]}]", `step "a": arguments: want an object`},
		{"steps: [{id: a, tool: x, arguments: {b: {c: [1, '{{.x']}}}]", `step "a": arguments.b.c[1]: line:1: unclosed action`},
		{"steps: [{id: a, tool: x, arguments: {b: '{{template \"a\"}}'}}]", "a template cannot call another"},
		{"steps: [{id: a, tool: x, arguments: {b: '{{.steps.b.output.x}}'}}]", `step "a": a template reads the step "b", which is not there`},
		{"steps: [{id: a, tool: x, arguments: {b: '{{.steps.a.output.x}}'}}]", `step "a": a template reads the step "a": add that to dependsOn`},
		{"steps: [{id: a, tool: x, arguments: {b: '{{(index .steps \"b\").status}}'}}, {id: b, tool: x}]", `a template reads the step "b": add that to dependsOn`},
		{"steps: [{id: a, tool: x, condition: '{{.params.p}}'}, {id: b, tool: x, dependsOn: [a], arguments: {c: '{{.steps.a.output.text}}'}}]",
			`step "b": a template reads "text" of the step "a", which may be skipped or fail: give it defaultResults with that`},
		{"steps: [{id: a, tool: x, condition: '{{.params.p}}', defaultResults: {text: x}}, {id: b, tool: x, dependsOn: [a], arguments: {c: '{{.steps.a.output.text}}'}}]", ""},
		{"steps: [{id: a, tool: x, onError: {action: continue}}]\noutput: {properties: {p: {type: string, value: '{{.steps.a.output.text}}'}}}",
			`output: a template reads "text" of the step "a"`},
		{"steps: [{id: a, tool: x, onError: {action: continue}}]\noutput: {properties: {p: {type: string, value: '{{.steps.a.output.text}}', default: x}}}", ""},
		{"steps: [{id: a, tool: x, defaultResults: [1]}]", "defaultResults: want an object"},

		{"steps: [{id: a, type: elicitation}]", `step "a": message: say what the person is asked`},
		{"steps: [{id: a, type: elicitation, message: m, schema: {type: 5}}]", `step "a": schema: `},
		{"steps: [{id: a, type: elicitation, message: m, onDecline: {action: retry}}]", `onDecline: action: "retry": want abort, continue or skip_remaining`},
		{"steps: [{id: a, type: elicitation, message: m, onCancel: {action: x}}]", `onCancel: action: "x": want`},
		{"steps: [{id: a, type: elicitation, message: m, onError: {action: retry, retryCount: 2}}]", `onError: action: "retry": want abort or continue here`},

		{"steps: [{id: a, type: forEach, step: {tool: x}}]", `step "a": collection: say what to go through`},
		{"steps: [{id: a, type: forEach, collection: '[]'}]", `step "a": step: say what to do for each item`},
		{"steps: [{id: a, type: forEach, collection: '[]', maxIterations: 10000, step: {tool: x}}]", `step "a": maxIterations: 10000: want 1 to 1000`},
		{"steps: [{id: a, type: forEach, collection: '[]', maxIterations: -1, step: {tool: x}}]", `maxIterations: -1: want 1 to 1000`},
		{"steps: [{id: a, type: forEach, collection: '[]', maxParallel: 51, step: {tool: x}}]", `maxParallel: 51: want 1 to 50`},
		{"steps: [{id: a, type: forEach, collection: '[]', itemVar: index, step: {tool: x}}]", `itemVar: "index": want a name`},
		{"steps: [{id: a, type: forEach, collection: '[]', itemVar: a-b, step: {tool: x}}]", `itemVar: "a-b": want a name`},
		{"steps: [{id: a, type: forEach, collection: '{{.forEach.item}}', step: {tool: x}}]", `collection: line:1:10: there is no .forEach here`},
		{"steps: [{id: a, type: forEach, collection: '[]', step: {type: forEach, collection: '[]'}}]", `step: type: "forEach": only a tool`},
		{"steps: [{id: a, type: forEach, collection: '[]', step: {type: elicitation, message: m}}]", `step: type: "elicitation": only a tool`},
		{"steps: [{id: a, type: forEach, collection: '[]', step: {tool: x, condition: 'true'}}]", `step: condition: it belongs to the forEach`},
		{"steps: [{id: a, type: forEach, collection: '[]', step: {tool: x, onError: {action: continue}}}]", `step: onError: continue belongs to the forEach`},
		{"steps: [{id: a, type: forEach, collection: '[]', step: {tool: x, step: {tool: y}}}]", `step: step: a step of the type tool has none`},
		{"steps: [{id: a, type: forEach, collection: '[]', step: {tool: nobody.knows}}]", `step: tool: there is no "nobody.knows"`},
		{"steps: [{id: a, type: forEach, collection: '[]', step: {tool: x, arguments: {b: '{{.steps.z}}'}}}]", `a template reads the step "z"`},

		{"steps: [{id: a, tool: x}]\noutput: {properties: {}}", "output: properties: want one at least"},
		{"steps: [{id: a, tool: x}]\noutput: {properties: {p: {type: text, value: x}}}", `output: p: type: "text": want string`},
		{"steps: [{id: a, tool: x}]\noutput: {properties: {p: {type: string}}}", "output: p: want either a value or properties"},
		{"steps: [{id: a, tool: x}]\noutput: {properties: {p: {type: string, properties: {q: {type: string, value: x}}}}}", "output: p: properties: a property of the type string has none"},
		{"steps: [{id: a, tool: x}]\noutput: {properties: {p: {type: object, properties: {q: {type: string, value: '{{'}}}}}", "output: p: q: value: line:1: "},
		{"steps: [{id: a, tool: x}]\noutput: {properties: {p: {type: integer, value: x, default: y}}}", `output: p: default: "y" is no integer`},
		{"steps: [{id: a, tool: x}]\noutput: {properties: {p: {type: string, value: x}}, required: [q]}", `output: required: there is no property "q"`},
		{"steps: [{id: a, tool: x}]\noutput: {properties: " + strings.Repeat("{p: {type: object, properties: ", 11) + "{q: {type: string, value: x}}" + strings.Repeat("}}", 11) + "}",
			"properties are more than 10 deep"},
	} {
		_, err := Compile(parsed(t, row.text), func(tool string) bool { return tool != "nobody.knows" })
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%.150s\n got %v\nwant %s", row.text, err, row.want)
		}
	}
}

// TestCompileBoundsAliases compiles what has few bytes of YAML, and as JSON many.
func TestCompileBoundsAliases(t *testing.T) {
	text := "steps:\n- {id: s0, tool: a.b, arguments: &big {x: [" + strings.Repeat("'abcdefghijklmnop',", 5000) + "]}}\n"
	for i := range 99 {
		text += fmt.Sprintf("- {id: s%d, tool: a.b, arguments: *big}\n", i+1)
	}
	if _, err := Compile(parsed(t, text), nil); err == nil || !strings.Contains(err.Error(), "the values have more than") {
		t.Error(err)
	}
}
