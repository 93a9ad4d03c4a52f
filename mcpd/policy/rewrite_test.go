package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func rewriting(t *testing.T, r Rule, more ...Rule) *Policy {
	t.Helper()
	r.ID, r.Decision, r.Priority = "r", Rewrite, 5
	if r.On == "" {
		r.On = OnRequest
	}
	p, err := New(Config{Rules: append(more, r)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Only the bytes named change.
func TestRewrite(t *testing.T) {
	const args = "{ \"path\":\"/x\", \"n\" : 1.50,\n\"big\":9007199254740993, \"l\":[ 1, {\"t\":\"a\"} ,{\"t\":\"b\\u0041\"}], \"o\":{}, \"a.b\":\"s\" }"
	swap := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(args) }
	for _, tt := range []struct {
		rule Rule
		want string
	}{
		{Rule{Set: map[string]any{"path": "/y"}}, swap(`"/x"`, `"/y"`)},
		{Rule{Set: map[string]any{"l[1].t": int64(5)}}, swap(`"t":"a"`, `"t":5`)},
		{Rule{Set: map[string]any{"l[*].t": "z", `["a.b"]`: nil}}, ""}, // l[0] is a number
		{Rule{Set: map[string]any{`["a.b"]`: true}}, swap(`"s"`, `true`)},
		{Rule{Set: map[string]any{"o.x.y": "<"}}, swap(`{}`, `{"x":{"y":"<"}}`)},
		{Rule{Set: map[string]any{"new": []any{int64(1)}}}, swap(`"s" }`, `"s","new":[1] }`)},
		{Rule{Set: map[string]any{"l[7]": "z"}}, ""},
		{Rule{Set: map[string]any{"path.x": "z"}}, ""},
		{Rule{Remove: []string{"path"}}, swap(` "path":"/x",`, ``)},
		{Rule{Remove: []string{`["a.b"]`}}, swap(`, "a.b":"s"`, ``)},
		{Rule{Remove: []string{"l[0]", "l[0]", "nothing", "path.x", "l[9]"}}, swap(` 1, {"t":"a"} ,`, ``)},
		{Rule{Remove: []string{"l[*]"}}, swap(`[ 1, {"t":"a"} ,{"t":"b\u0041"}]`, `[]`)},
		{Rule{Redact: []string{"l[*].t", "path"}}, swap(`"a"}`, `"[redacted]"}`, `"b\u0041"`, `"[redacted]"`, `"/x"`, `"[redacted]"`)},
	} {
		d := rewriting(t, tt.rule).Decide(&Event{On: OnRequest, Method: "tools/call", Known: true, Args: []byte(args)})
		if tt.want == "" {
			if d.Action != Block || !strings.Contains(d.Reason, "the rewrite of the rule cannot be made: ") {
				t.Errorf("%+v: %+v", tt.rule, d)
			}
			continue
		}
		if d.Action != Rewrite || string(d.Rewritten) != tt.want {
			t.Errorf("%+v: %s %s\n got %s\nwant %s", tt.rule, d.Action, d.Reason, d.Rewritten, tt.want)
		}
	}
	d := rewriting(t, Rule{On: OnResponse, Redact: []string{"content[*].text"}}).Decide(&Event{On: OnResponse, Answer: []byte(`{"content":[{"type":"text","text":"s"}]}`)})
	if string(d.Rewritten) != `{"content":[{"type":"text","text":"[redacted]"}]}` {
		t.Errorf("a result: %+v", d)
	}
}

// What a rewrite makes has to fit the schema and to pass what goes before it.
func TestRewriteIsChecked(t *testing.T) {
	schema := []byte(`{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false}`)
	e := Event{On: OnRequest, Method: "tools/call", Known: true, Args: []byte(`{"n":1}`), Schema: schema}
	corp := Rule{ID: "c", Layer: LayerCorp, On: OnRequest, If: `mcp.request.arguments.n == 7`, Decision: Block, Priority: -1}
	for _, tt := range []struct {
		set    map[string]any
		schema string
		rule   string
		reason string
	}{
		{map[string]any{"n": int64(2)}, "", "r", "the rule says so"},
		{map[string]any{"n": int64(7)}, "", "c", "the rule says so"},
		{map[string]any{"n": "x"}, "", "r", `the rewrite of the rule cannot be made: the tool does not take that: ["n"] breaks [type]`},
		{map[string]any{"m": "x"}, "", "r", "breaks [additionalProperties]"},
		{map[string]any{"n": int64(2)}, `{"$ref":"http://a.example/s.json"}`, "r", "the tool's schema cannot be read"},
	} {
		e := e
		if tt.schema != "" {
			e.Schema = []byte(tt.schema)
		}
		d := rewriting(t, Rule{Set: tt.set}, corp).Decide(&e)
		if d.Rule != tt.rule || !strings.Contains(d.Reason, tt.reason) || (d.Action == Rewrite) != (tt.set["n"] == int64(2) && tt.schema == "") {
			t.Errorf("%v: %+v", tt.set, d)
		}
	}
}

func TestRewriteFaults(t *testing.T) {
	for _, tt := range []struct {
		rule Rule
		want string
	}{
		{Rule{Decision: Rewrite}, "say what is to be removed"},
		{Rule{Decision: Block, Remove: []string{"a"}}, "goes with rewrite"},
		{Rule{Decision: Rewrite, On: OnHTTP, Remove: []string{"a"}}, "http has nothing to rewrite"},
		{Rule{Decision: Rewrite, Remove: []string{""}}, `"" is no path: write it like options.limit`},
		{Rule{Decision: Rewrite, Remove: []string{"a..b"}}, "is no path"},
		{Rule{Decision: Rewrite, Redact: []string{"a["}}, "is no path"},
		{Rule{Decision: Rewrite, Redact: []string{"a[-1]"}}, "is no path"},
		{Rule{Decision: Rewrite, Set: map[string]any{"a.": 1}}, "is no path"},
		{Rule{Decision: Rewrite, Remove: []string{strings.Repeat("[0]", 40)}}, "more than 32 steps"},
		{Rule{Decision: Rewrite, Remove: strings.Split(strings.Repeat("a ", 65), " ")[:65]}, "more than 64 paths"},
	} {
		tt.rule.ID, tt.rule.Priority = "r", 1
		if tt.rule.On == "" {
			tt.rule.On = OnRequest
		}
		_, err := New(Config{Rules: []Rule{tt.rule}})
		var f *Fault
		if !errors.As(err, &f) || !strings.Contains(f.Text, tt.want) {
			t.Errorf("%+v: %v", tt.rule, err)
		}
	}
}

// A rewrite of valid JSON is valid JSON, and what is not redacted stays.
func FuzzRewrite(f *testing.F) {
	f.Add("a", []byte(`{"a":1,"b":[1,2]}`))
	f.Add("b[*].c", []byte(`{"b":[ {"c":1} ,{"c":2}]}`))
	f.Add(`["x y"]`, []byte(`{ "x y" : {} }`))
	f.Fuzz(func(t *testing.T, path string, text []byte) {
		steps, err := parsePath(path)
		if err != nil || !json.Valid(text) {
			return
		}
		for _, e := range []edit{{path: steps}, {path: steps, value: []byte(redacted)}, {path: steps, value: []byte("7"), set: true}} {
			out, err := apply([]edit{e}, text)
			if err != nil {
				continue
			}
			if !json.Valid(out) {
				t.Fatalf("%q in %q: %q", path, text, out)
			}
			if back := bytes.ReplaceAll(out, []byte(redacted), nil); !e.set && e.value != nil && !within(back, text) {
				t.Fatalf("%q in %q: %q", path, text, out)
			}
		}
	})
}

// within tells whether the bytes of part stand in text, in that order.
func within(part, text []byte) bool {
	for _, c := range part {
		i := bytes.IndexByte(text, c)
		if i < 0 {
			return false
		}
		text = text[i+1:]
	}
	return true
}
