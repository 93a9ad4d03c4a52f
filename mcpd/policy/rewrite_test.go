package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"hutch/aggd/rawjson"
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
		{Rule{Redact: []string{"l[*].t", "path", "n", "o"}, Match: "^b|x"}, swap(`"b\u0041"`, `"[redacted]A"`, `"/x"`, `"/[redacted]"`)},
		{Rule{Redact: []string{"l"}, Match: "a|b"}, swap(`"t":"a"`, `"t":"[redacted]"`, `"b\u0041"`, `"[redacted]A"`)},
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
		{map[string]any{"N": "x"}, "", "r", `ambiguous member "N"`},
		{map[string]any{"n": int64(2)}, `{"$ref":"http://a.example/s.json"}`, "r", "the schema cannot be read"},
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

// Rules that rewrite add to each other and decide nothing by themselves.
func TestRewriteGoesOn(t *testing.T) {
	rewrites := []Rule{
		{ID: "one", On: OnRequest, Decision: Rewrite, Priority: 1, Set: map[string]any{"n": int64(1)}, Reason: "one"},
		{ID: "two", On: OnRequest, Decision: Rewrite, Priority: 2, Remove: []string{"secret"}},
		{ID: "three", On: OnRequest, If: `mcp.request.arguments.n == 2`, Decision: Block, Priority: 3},
	}
	allow := Rule{ID: "yes", On: OnRequest, Decision: Allow, Priority: 9}
	block := Rule{ID: "no", On: OnRequest, If: `mcp.request.arguments.n == 1 && !has(mcp.request.arguments.secret)`, Decision: Block, Priority: 8}
	ask := Rule{ID: "who", On: OnRequest, Decision: Ask, Priority: 8}
	for name, tt := range map[string]struct {
		config Config
		action string
		rule   string
		args   string
	}{
		"the default":       {Config{}, Rewrite, "one", `{"n":1}`},
		"a default that is": {Config{Default: Block}, Block, RuleDefault, ""},
		"allowed":           {Config{Default: Block, Rules: []Rule{allow}}, Rewrite, "one", `{"n":1}`},
		"blocked":           {Config{Rules: []Rule{block, allow}}, Block, "no", ""},
		"asked":             {Config{Rules: []Rule{ask}}, Ask, "who", `{"n":1}`},
		"observed before":   {Config{Mode: Observe, Rules: []Rule{{ID: "early", On: OnRequest, Decision: Block}}}, Allow, "early", `{"n":1}`},
		"observed":          {Config{Mode: Observe, Rules: []Rule{block}}, Allow, "no", `{"n":1}`},
	} {
		tt.config.Rules = append(slices.Clone(rewrites), tt.config.Rules...)
		for i := range tt.config.Rules {
			if r := &tt.config.Rules[i]; r.Priority == 0 { // before the rewrites
				r.Priority, r.ID = 1, "early"
			}
		}
		e := &Event{On: OnRequest, Method: "tools/call", Known: true, Args: []byte(`{"n":2,"secret":"x"}`)}
		d := compiled(t, tt.config).Decide(e)
		if d.Action != tt.action || d.Rule != tt.rule || string(d.Rewritten) != tt.args {
			t.Errorf("%s: %+v %s", name, d, d.Rewritten)
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
		{Rule{Decision: Rewrite, Redact: []string{"a"}, Match: "("}, "is no regular expression: missing closing )"},
		{Rule{Decision: Rewrite, Remove: []string{"a"}, Match: "x"}, "say in redact which texts"},
		{Rule{Decision: Rewrite, Redact: []string{"a"}, Match: strings.Repeat("x", 1001)}, "has 1001 bytes, at most 1000"},
		{Rule{Decision: Block, Match: "x"}, "goes with rewrite"},
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

// Only the bytes named change, whatever the path and the JSON.
func FuzzRewrite(f *testing.F) {
	f.Add("a", []byte(`{"a":1,"b":[1,2]}`))
	f.Add("b[*].c", []byte(`{"b":[ {"c":1} ,{"c":2}]}`))
	f.Add(`["x y"]`, []byte(`{ "x y" : {} }`))
	f.Add("a.b", []byte(`{"a":{ }, "a":{"b" : "\u0041"}}`))
	f.Add("[1]", []byte(` [ 1 , 2 , 3 ] `))
	f.Fuzz(func(t *testing.T, path string, text []byte) {
		steps, err := parsePath(path)
		if err != nil || !utf8.Valid(text) || !json.Valid(text) {
			return
		}
		for _, e := range []edit{{path: steps}, {path: steps, value: rawjson.Quote(redacted)}, {path: steps, value: []byte("7"), set: true}} {
			out, err := apply([]edit{e}, text)
			if err != nil {
				continue
			}
			if !json.Valid(out) {
				t.Fatalf("%q in %q: %q", path, text, out)
			}
			if why := wrongly(e, text, out); why != "" {
				t.Errorf("%+v of %q in %q: %q: %s", e, path, text, out, why)
			}
		}
	})
}

// wrongly tells what is wrong with out, which an edit made of text. It finds
// what is named by encoding/json, unlike the edit itself.
func wrongly(e edit, text, out []byte) string {
	named := spansOf(text, e.path, 0)
	put := func(value string) string {
		var b strings.Builder
		last := 0
		for _, s := range named {
			b.Write(text[last:s.Start])
			b.WriteString(value)
			last = s.End
		}
		return b.String() + string(text[last:])
	}
	simple := rawjson.Unique(text) == nil && !slices.ContainsFunc(e.path, func(s step) bool { return s.all })
	switch {
	case len(named) == 0 && !e.set && string(out) != string(text):
		return "nothing was named"
	case e.value == nil:
		if !within(out, text) {
			return "something is there that was not"
		}
		if simple && len(named) == 1 && !reflect.DeepEqual(jsonOf(out), removed(jsonOf(text), e.path)) {
			return "something else is removed"
		}
	case !e.set || simple && len(named) > 0:
		if want := put(string(e.value)); string(out) != want {
			return "want " + want
		}
	default:
		if !within([]byte(put("")), out) {
			return "something is lost"
		}
		for _, s := range spansOf(out, e.path, 0) {
			if got := out[s.Start:s.End]; string(got) != string(e.value) {
				return "not set: " + string(got)
			}
		}
	}
	return ""
}

// spansOf returns where the values that a path names stand in text, which
// begins at the byte at of the whole.
func spansOf(text []byte, path []step, at int) (spans []rawjson.Span) {
	if len(path) == 0 {
		return []rawjson.Span{{Start: at, End: at + len(text)}}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	open, _ := d.Token()
	if open != json.Delim('{') && open != json.Delim('[') {
		return nil
	}
	for i, s := 0, path[0]; d.More(); i++ {
		is := s.all || s.index == i && open == json.Delim('[')
		if open == json.Delim('{') {
			name, _ := d.Token()
			is = s.all || s.index < 0 && name == s.name
		}
		var value json.RawMessage
		d.Decode(&value)
		if end := int(d.InputOffset()); is {
			spans = append(spans, spansOf(value, path[1:], at+end-len(value))...)
		}
	}
	return spans
}

// removed returns value without what a path without [*] names.
func removed(value any, path []step) any {
	s := path[0]
	switch v := value.(type) {
	case map[string]any:
		if inner, ok := v[s.name]; ok && len(path) > 1 {
			v[s.name] = removed(inner, path[1:])
		} else {
			delete(v, s.name)
		}
	case []any:
		if len(path) == 1 {
			return slices.Delete(v, s.index, s.index+1)
		}
		v[s.index] = removed(v[s.index], path[1:])
	}
	return value
}

func jsonOf(text []byte) (value any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	d.Decode(&value)
	return value
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
