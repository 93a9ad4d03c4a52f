package composite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A scene has tools by their names, and notes the calls.
type scene struct {
	tools map[string]func(ctx context.Context, arguments string) (string, error)
	ask   func(ctx context.Context, message string) (string, string, error)
	mu    sync.Mutex // guards what follows
	calls []string
}

func (s *scene) caller() Caller {
	c := Caller{Call: func(ctx context.Context, tool string, arguments json.RawMessage) (json.RawMessage, error) {
		s.mu.Lock()
		s.calls = append(s.calls, tool+" "+string(arguments))
		s.mu.Unlock()
		f := s.tools[tool]
		if f == nil {
			f = s.tools["*"]
		}
		result, err := f(ctx, string(arguments))
		return json.RawMessage(result), err
	}}
	if s.ask != nil {
		c.Ask = func(ctx context.Context, message string, schema json.RawMessage) (string, json.RawMessage, error) {
			action, content, err := s.ask(ctx, message)
			return action, json.RawMessage(content), err
		}
	}
	return c
}

// says is a tool that always gives the same result.
func says(result string, err error) func(context.Context, string) (string, error) {
	return func(context.Context, string) (string, error) { return result, err }
}

func text(s string) string {
	return fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, s)
}

func structured(s string) string { return `{"content":[],"structuredContent":` + s + `}` }

func isError(s string) string {
	return fmt.Sprintf(`{"content":[{"type":"text","text":%q}],"isError":true}`, s)
}

// echo gives back its arguments.
func echo(_ context.Context, arguments string) (string, error) { return structured(arguments), nil }

// said returns the text of a result, with "error: " before it if it is one.
func said(t testing.TB, result json.RawMessage) string {
	t.Helper()
	var r struct {
		Content           []struct{ Type, Text string }
		StructuredContent json.RawMessage
		IsError           bool
	}
	if err := json.Unmarshal(result, &r); err != nil || len(r.Content) != 1 || r.Content[0].Type != "text" {
		t.Fatalf("result %s: %v", result, err)
	}
	if r.IsError {
		return "error: " + r.Content[0].Text
	}
	if r.StructuredContent != nil && string(r.StructuredContent) != r.Content[0].Text {
		t.Errorf("result %s: its two contents differ", result)
	}
	return r.Content[0].Text
}

func TestRun(t *testing.T) {
	for name, row := range map[string]struct {
		text, arguments, want string
		calls                 string // sorted
	}{
		"the last step": {
			text: "steps: [{id: a, tool: say}, {id: b, tool: echo, dependsOn: [a], arguments: {x: '{{.steps.a.output.text}}', n: 1.50, deep: {l: ['{{.steps.a.status}}']}}}]",
			want: `{"deep":{"l":["completed"]},"n":1.5,"x":"hello"}`, calls: "echo {\"deep\":{\"l\":[\"completed\"]},\"n\":1.50,\"x\":\"hello\"}\nsay {}",
		},
		"text only": {text: "steps: [{id: a, tool: say}]", want: `{"text":"hello"}`},
		"big numbers": {
			text:      "parameters: {type: object, properties: {n: {type: integer}}}\nsteps: [{id: a, tool: typed, arguments: {n: '{{.params.n}}', lit: 98765432109876543210, b: '1', o: '1', l: '[1, 2.50]', s: '5'}}]",
			arguments: `{"n":12345678901234567890}`,
			want:      `{"b":true,"l":[1,2.5],"lit":98765432109876543210,"n":12345678901234567890,"o":1,"s":"5"}`,
		},
		"defaults of parameters": {
			text:      "parameters: {type: object, properties: {a: {type: string, default: x}, b: {type: string, default: y}}}\nsteps: [{id: s, tool: echo, arguments: {v: '{{.params.a}}{{.params.b}}'}}]",
			arguments: `{"b":"z"}`, want: `{"v":"xz"}`,
		},
		"skipped": {
			text: "steps: [{id: a, tool: say}, {id: b, tool: fail, condition: '{{eq .steps.a.output.text \"bye\"}}', dependsOn: [a], defaultResults: {text: none}}, {id: c, tool: echo, dependsOn: [b], arguments: {v: '{{.steps.b.status}} {{.steps.b.output.text}}'}}]",
			want: `{"v":"skipped none"}`,
		},
		"all skipped": {text: "steps: [{id: a, tool: fail, condition: 'false'}]", want: `{}`},
		"going on": {
			text: "steps: [{id: a, tool: fail, onError: {action: continue}, defaultResults: {text: none}}, {id: b, tool: echo, dependsOn: [a], arguments: {v: '{{.steps.a.status}}, {{.steps.a.error}}, {{.steps.a.output.text}}'}}]",
			want: `{"v":"failed, tool \"fail\": no luck, none"}`,
		},
		"failing":      {text: "steps: [{id: a, tool: fail}, {id: b, tool: say, dependsOn: [a]}]", want: `error: composite tool "t": step "a": tool "fail": no luck`, calls: "fail {}"},
		"no transport": {text: "steps: [{id: a, tool: down}]", want: `error: composite tool "t": step "a": tool "down": gone`},
		"no text":      {text: "steps: [{id: a, tool: mute}]", want: `error: composite tool "t": step "a": tool "mute": the tool says that it failed, and not why`},
		"no value": {
			text: "steps: [{id: a, tool: say, arguments: {v: '{{.params.nope}}'}}]",
			want: `error: composite tool "t": step "a": arguments.v: {{.params.nope}} has no value: write {{or .x ""}} in place of {{.x}} where it may have none`, calls: "",
		},
		"no condition": {
			text: "steps: [{id: a, tool: say, condition: 'maybe'}]",
			want: `error: composite tool "t": step "a": condition: "maybe" is neither true nor false`,
		},
		"no end": {
			text: "steps: [{id: a, tool: say, arguments: {v: '{{range 1000000000000}}{{end}}'}}]",
			want: `error: composite tool "t": step "a": arguments.v: the template does too much work`,
		},
		"too many arguments": {
			text: "steps: [{id: a, tool: say, arguments: {v: '{{range 100000}}0123456789012345{{end}}'}}]",
			want: `error: composite tool "t": step "a": arguments.v: the template makes more than 1048576 bytes`,
		},
		"no object":        {text: "steps: [{id: a, tool: say}]", arguments: "[1]", want: `error: arguments: [] breaks [type]`},
		"wrong arguments":  {text: "parameters: {type: object, properties: {n: {type: integer}}}\nsteps: [{id: a, tool: say}]", arguments: `{"n":"x"}`, want: `error: arguments: ["n"] breaks [type]`},
		"not JSON":         {text: "steps: [{id: a, tool: strange}]", want: `error: composite tool "t": step "a": tool "strange": the result cannot be read: invalid JSON: ends too early`},
		"structured lists": {text: "steps: [{id: a, tool: list}, {id: b, tool: echo, dependsOn: [a], arguments: {v: '{{index .steps.a.output 1}}'}}]", want: `{"v":"2"}`},
		"blocks": {
			text: "steps: [{id: a, tool: blocks}, {id: b, tool: echo, dependsOn: [a], arguments: {v: '{{json .steps.a.content}}'}}]",
			want: `{"v":"{\"image_0\":\"aaa\",\"resource\":\"r\",\"resource_1\":\"bbb\",\"text\":\"one\",\"text_1\":\"two\"}"}`,
		},
		"for each": {
			text: "steps: [{id: l, tool: list}, {id: e, type: forEach, dependsOn: [l], collection: '{{json .steps.l.output}}', step: {tool: echo, arguments: {i: '{{.forEach.index}}', v: '{{.forEach.item}}'}}}]",
			want: `{"completed":2,"count":2,"failed":0,"iterations":[{"index":0,"item":1,"output":{"i":"0","v":"1"},"status":"completed"},{"index":1,"item":2,"output":{"i":"1","v":"2"},"status":"completed"}]}`,
		},
		"for none": {text: "steps: [{id: e, type: forEach, collection: '[]', step: {tool: fail}}]", want: `{"completed":0,"count":0,"failed":0,"iterations":[]}`},
		"for each, going on": {
			text: "steps: [{id: e, type: forEach, collection: '[\"say\", \"fail\"]', itemVar: it, onError: {action: continue}, step: {tool: odd, arguments: {v: '{{.forEach.it}}'}}}]\noutput: {properties: {n: {type: integer, value: '{{.steps.e.output.failed}}'}, why: {type: string, value: '{{(index .steps.e.output.iterations 1).error}}'}}}",
			want: `{"n":1,"why":"tool \"odd\": odd"}`,
		},
		"for each, failing": {
			text: "steps: [{id: e, type: forEach, collection: '[\"fail\"]', step: {tool: odd, arguments: {v: '{{.forEach.item}}'}}}]",
			want: `error: composite tool "t": step "e": item 0: tool "odd": odd`,
		},
		"for too many": {
			text:      "parameters: {type: object}\nsteps: [{id: e, type: forEach, maxIterations: 1000, collection: '{{json .params.l}}', step: {tool: fail}}]",
			arguments: `{"l":[` + strings.Repeat("1,", 9999) + `1]}`,
			want:      `error: composite tool "t": step "e": collection: 10000 items, at most 1000 by maxIterations`,
		},
		"for 101": {
			text:      "parameters: {type: object}\nsteps: [{id: e, type: forEach, collection: '{{json .params.l}}', step: {tool: fail}}]",
			arguments: `{"l":[` + strings.Repeat("1,", 100) + `1]}`,
			want:      `error: composite tool "t": step "e": collection: 101 items, at most 100 by maxIterations`,
		},
		"for null": {
			text: "steps: [{id: n, tool: numbers}, {id: e, type: forEach, dependsOn: [n], collection: '{{json .steps.n.output.z}}', step: {tool: fail}}]",
			want: `{"completed":0,"count":0,"failed":0,"iterations":[]}`,
		},
		"for no list": {text: "steps: [{id: e, type: forEach, collection: '{}', step: {tool: fail}}]", want: `error: composite tool "t": step "e": collection: "{}" is no JSON array`},
		"output": {
			text: `steps: [{id: a, tool: numbers}]
output:
  properties:
    i: {type: integer, value: "{{.steps.a.output.i}}"}
    f: {type: number, value: "{{.steps.a.output.f}}"}
    b: {type: boolean, value: "{{gt .steps.a.output.f 1}}"}
    s: {type: string, value: "{{.steps.a.output.i}}"}
    l: {type: array, value: "{{json .steps.a.output.l}}"}
    o: {type: object, value: "{\"raw\": 1.50}"}
    d: {type: integer, value: "{{.steps.a.output.nope}}", default: 12345678901234567891}
    e: {type: object, value: "no JSON", default: {a: 1}}
    n: {type: object, properties: {w: {type: string, value: "{{.workflow.status}} {{.workflow.step_count}}"}}}
  required: [i, d]`,
			want: `{"b":true,"d":12345678901234567891,"e":{"a":1},"f":2.5,"i":12345678901234567890,"l":[1,2],"n":{"w":"completed 1"},"o":{"raw":1.50},"s":"12345678901234567890"}`,
		},
		"output of no type": {text: "steps: [{id: a, tool: say}]\noutput: {properties: {n: {type: integer, value: '{{.steps.a.output.text}}'}}}", want: `error: composite tool "t": output: n: "hello" is no integer`},
		"output of nothing": {text: "steps: [{id: a, tool: say}]\noutput: {properties: {n: {type: string, value: '{{.steps.a.output.nope}}'}}}", want: `{}`},
		"output of null": {
			text: `steps: [{id: a, tool: numbers}]
output:
  properties:
    l: {type: array, value: "{{json .steps.a.output.z}}"}
    d: {type: array, value: "{{json .steps.a.output.z}}", default: []}
    n: {type: object, properties: {z: {type: integer, value: "{{.steps.a.output.z}}"}}}
    s: {type: string, value: "null"}
    b: {type: boolean, value: "1"}
    c: {type: boolean, value: "F"}`,
			want: `{"b":true,"c":false,"d":[],"n":{},"s":"null"}`,
		},
		"output that is required": {
			text: "steps: [{id: a, tool: say}]\noutput: {required: [n], properties: {n: {type: string, value: '{{.steps.a.output.nope}}'}}}",
			want: `error: composite tool "t": output: n: it is required, and has no value`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scene{tools: map[string]func(context.Context, string) (string, error){
				"say": says(text("hello"), nil), "echo": echo, "typed": echo,
				"fail": says(isError("no luck"), nil), "mute": says(`{"content":[],"isError":true}`, nil),
				"down": says("", errors.New("gone")), "strange": says("{", nil), "list": says(structured("[1,2]"), nil),
				"numbers": says(structured(`{"i":12345678901234567890,"f":2.50,"l":[1,2],"z":null}`), nil),
				"blocks": says(`{"content":[{"type":"text","text":"one"},{"type":"image","data":"aaa"},{"type":"audio","data":"x"},
					{"type":"resource","resource":{"text":"r"}},{"type":"text","text":"two"},{"type":"resource","resource":{"blob":"bbb"}}]}`, nil),
				"odd": func(_ context.Context, a string) (string, error) {
					if strings.Contains(a, "fail") {
						return "", errors.New("odd")
					}
					return text("even"), nil
				},
			}}
			c := s.caller()
			c.Schema = func(tool string) json.RawMessage {
				if tool != "typed" {
					return nil
				}
				return json.RawMessage(`{"type":"object","properties":{"n":{"type":["null","integer"]},"b":{"type":"boolean"},"o":{"type":["boolean","integer"]},"l":{"type":"array"},"s":{"type":["integer","string"]}}}`)
			}
			result, err := compile(t, row.text).Run(t.Context(), json.RawMessage(row.arguments), c)
			if err != nil {
				t.Fatal(err)
			}
			if got := said(t, result); got != row.want {
				t.Errorf("\n got %s\nwant %s", got, row.want)
			}
			slices.Sort(s.calls)
			if row.calls != "" && strings.Join(s.calls, "\n") != row.calls {
				t.Errorf("calls %q, want %q", s.calls, row.calls)
			}
		})
	}
}

func TestElicitation(t *testing.T) {
	const definition = `parameters: {type: object}
steps:
- {id: ask, type: elicitation, message: "Deploy {{.params.what}}?", timeout: 1m, schema: {type: object, properties: {n: {type: integer}}}, %s}
- {id: do, tool: echo, dependsOn: [ask], arguments: {v: "{{json .steps.ask.output}}"}}
`
	for name, row := range map[string]struct {
		fields, action, content string
		err                     error
		want                    string
	}{
		"accept":             {"", "accept", `{"n":12345678901234567890}`, nil, `{"v":"{\"action\":\"accept\",\"content\":{\"n\":12345678901234567890}}"}`},
		"accept nothing":     {"", "accept", "", nil, `{"v":"{\"action\":\"accept\",\"content\":{}}"}`},
		"accept what is not": {"", "accept", `{"n":"x"}`, nil, `error: composite tool "t": step "ask": the answer does not fit: ["n"] breaks [type]`},
		"decline":            {"", "decline", "", nil, `error: composite tool "t": step "ask": the person did not accept: decline`},
		"decline, go on":     {"onDecline: {action: continue}", "decline", "", nil, `{"v":"{\"action\":\"decline\"}"}`},
		"decline, skip":      {"onDecline: {action: skip_remaining}", "decline", "", nil, `{"action":"decline","skipped":true}`},
		"cancel":             {"onDecline: {action: continue}", "cancel", "", nil, `error: composite tool "t": step "ask": the person did not accept: cancel`},
		"cancel, go on":      {"onCancel: {action: continue}", "cancel", "", nil, `{"v":"{\"action\":\"cancel\"}"}`},
		"strange":            {"", "maybe", "", nil, `error: composite tool "t": step "ask": the answer is "maybe": want accept, decline or cancel`},
		"error":              {"", "", "", errors.New("no client"), `error: composite tool "t": step "ask": no client`},
		"no answer":          {"", "wait", "", nil, `error: composite tool "t": step "ask": it takes too long: 1m0s are over`},
		"no answer, skip":    {"onCancel: {action: skip_remaining}", "wait", "", nil, `{"action":"timeout","skipped":true}`},
		"large":              {"", "accept", `{"x":"` + strings.Repeat("x", MaxArguments) + `"}`, nil, `error: composite tool "t": step "ask": the answer has 1048584 bytes, at most 1048576`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scene{tools: map[string]func(context.Context, string) (string, error){"*": echo}}
				s.ask = func(ctx context.Context, message string) (string, string, error) {
					if message != "Deploy it?" {
						t.Errorf("message %q", message)
					}
					if row.action == "wait" {
						<-ctx.Done()
						return "", "", ctx.Err()
					}
					return row.action, row.content, row.err
				}
				result, err := compile(t, fmt.Sprintf(definition, row.fields)).Run(t.Context(), json.RawMessage(`{"what":"it"}`), s.caller())
				if err != nil {
					t.Fatal(err)
				}
				if got := said(t, result); got != row.want {
					t.Errorf("\n got %s\nwant %s", got, row.want)
				}
			})
		})
	}
	s := &scene{}
	result, err := compile(t, fmt.Sprintf(definition, "")).Run(t.Context(), json.RawMessage(`{"what":"it"}`), s.caller())
	if err != nil || !strings.Contains(said(t, result), "no way to ask") {
		t.Errorf("%s, %v", result, err)
	}
}

// TestSkipRemaining skips steps that have not begun, with their defaults, and lets
// those that have go on.
func TestSkipRemaining(t *testing.T) {
	tool := compile(t, `
steps:
- {id: slow, tool: slow}
- {id: ask, type: elicitation, message: "go on?", onDecline: {action: skip_remaining}}
- {id: after, tool: say, dependsOn: [ask], defaultResults: {text: none}}
output:
  properties:
    said: {type: string, value: "{{.steps.slow.output.text}} {{.steps.after.status}} {{.steps.after.output.text}}"}
`)
	begun, asked := make(chan struct{}), make(chan struct{})
	s := &scene{tools: map[string]func(context.Context, string) (string, error){
		"slow": func(context.Context, string) (string, error) { close(begun); <-asked; return text("slow"), nil },
	}}
	s.ask = func(context.Context, string) (string, string, error) {
		<-begun
		close(asked)
		return "decline", "", nil
	}
	result, err := tool.Run(t.Context(), nil, s.caller())
	if err != nil || said(t, result) != `{"said":"slow skipped none"}` {
		t.Errorf("%s, %v", result, err)
	}
}

func TestRetries(t *testing.T) {
	for name, row := range map[string]struct {
		count, fails int
		timeout      string
		want         string
		tries        int
		took         time.Duration
	}{
		"the third":      {3, 2, "1h", `{"text":"at last"}`, 3, 3 * time.Second},
		"none":           {2, 9, "1h", `error: composite tool "t": step "a": tool "x": not yet`, 3, 3 * time.Second},
		"at most ten":    {100, 99, "1h", `error: composite tool "t": step "a": tool "x": not yet`, 11, (1 + 2 + 4 + 8 + 16 + 32 + 4*60) * time.Second},
		"out of time":    {10, 99, "5s", `error: composite tool "t": step "a": it takes too long: 5s are over`, 3, 5 * time.Second},
		"not after that": {1, 0, "1h", `{"text":"at last"}`, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				s := &scene{tools: map[string]func(context.Context, string) (string, error){"x": func(context.Context, string) (string, error) {
					if tries++; tries <= row.fails {
						return isError("not yet"), nil
					}
					return text("at last"), nil
				}}}
				began := time.Now()
				result, err := compile(t, fmt.Sprintf("steps: [{id: a, tool: x, timeout: %s, onError: {action: retry, retryCount: %d, retryDelay: 1s}}]", row.timeout, row.count)).Run(t.Context(), nil, s.caller())
				if err != nil {
					t.Fatal(err)
				}
				if got := said(t, result); got != row.want || tries != row.tries || time.Since(began) != row.took {
					t.Errorf("%s after %d tries and %v, want %s, %d, %v", got, tries, time.Since(began), row.want, row.tries, row.took)
				}
			})
		})
	}
}

// hang is a tool that does not answer.
func hang(ctx context.Context, _ string) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

// late is a tool that takes its time, and does not ask whose that is.
func late(context.Context, string) (string, error) {
	time.Sleep(2 * time.Second) // of the bubble
	return text("late"), nil
}

// TestTimeLimits ends steps and runs whose tools hang. synctest sees to it that
// nothing is left running.
func TestTimeLimits(t *testing.T) {
	for name, row := range map[string]struct {
		text, want string
		took       time.Duration
	}{
		"a step":           {"steps: [{id: a, tool: x, timeout: 3s}]", `error: composite tool "t": step "a": it takes too long: 3s are over`, 3 * time.Second},
		"the default":      {"steps: [{id: a, tool: x}]", `error: composite tool "t": step "a": it takes too long: 5m0s are over`, 5 * time.Minute},
		"going on":         {"steps: [{id: a, tool: x, timeout: 3s, onError: {action: continue}}, {id: b, tool: y, dependsOn: [a]}]", `{"text":"y"}`, 3 * time.Second},
		"a run":            {"timeout: 2s\nsteps: [{id: a, tool: x, timeout: 3s, onError: {action: continue}}]", `error: composite tool "t": it takes too long: 2s are over`, 2 * time.Second},
		"a run by default": {"steps: [{id: a, tool: x, timeout: 1h}]", `error: composite tool "t": it takes too long: 30m0s are over`, 30 * time.Minute},
		"items": {"steps: [{id: a, type: forEach, collection: '[1,2,3]', maxParallel: 1, onError: {action: continue}, step: {tool: x, timeout: 2s}}]\noutput: {properties: {n: {type: integer, value: '{{.steps.a.output.failed}}'}}}",
			`{"n":3}`, 6 * time.Second},
		"a forEach": {"steps: [{id: a, type: forEach, timeout: 3s, collection: '[1,2,3]', maxParallel: 1, onError: {action: continue}, step: {tool: x, timeout: 2s}}, {id: b, tool: y, dependsOn: [a]}]",
			`{"text":"y"}`, 3 * time.Second},
		"items in time": {"steps: [{id: a, type: forEach, timeout: 3s, collection: '[1,2,3,4,5,6,7]', maxParallel: 1, step: {tool: late}}]",
			`error: composite tool "t": step "a": it takes too long: 3s are over`, 4 * time.Second},
		"the first error": {"steps: [{id: a, tool: x}, {id: b, tool: fail}]", `error: composite tool "t": step "b": tool "fail": no`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scene{tools: map[string]func(context.Context, string) (string, error){"x": hang, "y": says(text("y"), nil), "fail": says(isError("no"), nil), "late": late}}
				began := time.Now()
				result, err := compile(t, row.text).Run(t.Context(), nil, s.caller())
				if err != nil {
					t.Fatal(err)
				}
				if got := said(t, result); got != row.want || time.Since(began) != row.took {
					t.Errorf("%s after %v\nwant %s after %v", got, time.Since(began), row.want, row.took)
				}
			})
		})
	}
}

func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("the client went away")
		s := &scene{tools: map[string]func(context.Context, string) (string, error){"x": func(ctx context.Context, _ string) (string, error) {
			cancel(why)
			return hang(ctx, "")
		}}}
		if _, err := compile(t, "steps: [{id: a, tool: x, onError: {action: retry, retryCount: 5}}, {id: b, tool: x, dependsOn: [a]}]").Run(ctx, nil, s.caller()); err != why {
			t.Error(err)
		}
		if len(s.calls) != 1 {
			t.Errorf("calls %q", s.calls)
		}
	})
}

// TestSideBySide counts the calls that are under way at once.
func TestSideBySide(t *testing.T) {
	many := "steps:\n"
	for i := range 30 {
		many += fmt.Sprintf("- {id: s%d, tool: x}\n", i)
	}
	for name, row := range map[string]struct {
		text string
		most int64
		took time.Duration
	}{
		"steps":     {many, MaxAtOnce, 3 * time.Second},
		"in a row":  {"steps: [{id: a, tool: x}, {id: b, tool: x, dependsOn: [a]}]", 1, 2 * time.Second},
		"a diamond": {"steps: [{id: a, tool: x}, {id: b, tool: x, dependsOn: [a]}, {id: c, tool: x, dependsOn: [a]}, {id: d, tool: x, dependsOn: [b, c]}]", 2, 3 * time.Second},
		"items":     {"steps: [{id: a, type: forEach, maxParallel: 4, collection: '[1,2,3,4,5,6,7,8]', step: {tool: x}}]", 4, 2 * time.Second},
		"the bound": {"steps: [" + strings.Repeat("{id: ID, type: forEach, maxParallel: 50, collection: '["+strings.Repeat("1,", 49)+"1]', step: {tool: x}},", 3) + "]", MaxParallel, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			for i := 0; strings.Contains(row.text, "ID"); i++ {
				row.text = strings.Replace(row.text, "ID", fmt.Sprint("s", i), 1)
			}
			synctest.Test(t, func(t *testing.T) {
				var now, most atomic.Int64
				s := &scene{tools: map[string]func(context.Context, string) (string, error){"x": func(context.Context, string) (string, error) {
					n := now.Add(1)
					for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
					}
					time.Sleep(time.Second) // of the bubble
					now.Add(-1)
					return text("x"), nil
				}}}
				began := time.Now()
				result, err := compile(t, row.text).Run(t.Context(), nil, s.caller())
				if err != nil || strings.HasPrefix(said(t, result), "error") {
					t.Fatalf("%s, %v", result, err)
				}
				if most.Load() != row.most || time.Since(began) != row.took {
					t.Errorf("%d at once, %v; want %d, %v", most.Load(), time.Since(began), row.most, row.took)
				}
			})
		})
	}
}

// TestResultsAreBounded lets tools give more than is kept.
func TestResultsAreBounded(t *testing.T) {
	large := structured(`"` + strings.Repeat("x", 3<<20) + `"`)
	s := &scene{tools: map[string]func(context.Context, string) (string, error){
		"large": says(large, nil), "over": says(structured(`"`+strings.Repeat("x", MaxResult)+`"`), nil),
		"failing": says(`{"isError":true,"content":[{"type":"text","text":"`+strings.Repeat("x", 3<<20)+`"}]}`, nil),
	}}
	for _, row := range []struct{ text, want string }{
		{"steps: [{id: a, tool: over}]", "the result has 4194341 bytes, at most 4194304"},
		{"steps: [{id: a, type: forEach, collection: '[1,2,3,4,5,6,7]', step: {tool: large}}]", "the results have more than 16777216 bytes together"},
		{"steps: [{id: a, tool: failing, onError: {action: retry, retryCount: 10, retryDelay: 1ns}}]", "xxxxxx"},
	} {
		result, err := compile(t, row.text).Run(t.Context(), nil, s.caller())
		if err != nil || !strings.Contains(said(t, result), row.want) || len(result) > 2*MaxText {
			t.Errorf("%.200s, %d bytes, %v, want %s", result, len(result), err, row.want)
		}
	}
}

// TestManyRuns runs one tool many times at once, and leaves nothing running.
func TestManyRuns(t *testing.T) {
	before := runtime.NumGoroutine()
	tool := compile(t, `
parameters: {type: object}
steps:
- {id: a, tool: echo, arguments: {v: "{{.params.v}}"}}
- {id: b, tool: echo, arguments: {v: "{{.params.v}}"}}
- {id: e, type: forEach, dependsOn: [a, b], collection: "[1, 2, 3, 4, 5]", step: {tool: echo, arguments: {v: "{{.steps.a.output.v}}{{.steps.b.output.v}}{{.forEach.item}}"}}}
output: {properties: {v: {type: string, value: "{{range .steps.e.output.iterations}}{{.output.v}} {{end}}"}}}
`)
	s := &scene{tools: map[string]func(context.Context, string) (string, error){"*": echo}}
	var runs sync.WaitGroup
	for i := range 50 {
		runs.Go(func() {
			result, err := tool.Run(t.Context(), json.RawMessage(fmt.Sprintf(`{"v":"%d"}`, i)), s.caller())
			want := `{"v":"`
			for j := range 5 {
				want += fmt.Sprintf("%d%d%d ", i, i, j+1)
			}
			if err != nil || said(t, result) != want+`"}` {
				t.Errorf("%s, %v", result, err)
			}
		})
	}
	runs.Wait()
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > before+2 {
		t.Errorf("%d goroutines, %d before", n, before)
	}
}
