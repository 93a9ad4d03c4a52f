package composite

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// data is what the templates of the tests read.
const data = `{
	"params": {"n": 3, "big": 12345678901234567890, "f": 2.50, "exact": 0.12345678901234567890, "million": 1000000,
		"s": "a\"b", "t": true, "nil": null, "list": [1, "x", {"k": 2}], "object": {"b": 1, "a": "<&>"}, "text": "{\"id\": 9007199254740993}"},
	"steps": {"one": {"status": "completed", "output": {"text": "hi"}}, "my-step": {"output": {"id": 7}}},
	"workflow": {"id": "w"}
}`

func fillOf(t testing.TB, text string) (string, error) {
	t.Helper()
	root, err := decode([]byte(data))
	if err != nil {
		t.Fatal(err)
	}
	root.(map[string]any)["params"].(map[string]any)["long"] = strings.Repeat("k", 1000001)
	p, err := parsePhrase(text, roots)
	if err != nil {
		return "", err
	}
	return p.fill(root.(map[string]any), &meter{ctx: t.Context(), left: MaxTemplateWork}, MaxMade)
}

func TestTemplate(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"plain } }} {", "plain } }} {"},
		{"{{.params.n}} {{.params.big}} {{.params.exact}} {{.params.million}}", "3 12345678901234567890 0.12345678901234567890 1000000"},
		{"{{.params.f}} {{.params.t}} {{.params.s}}", `2.5 true a"b`},
		{"{{.params.list}} {{.params.object}}", `[1,"x",{"k":2}] {"a":"<&>","b":1}`},
		{"{{json .params.s}} {{quote .params.s}} {{json .params.nil}} {{json .params.big}}", `"a\"b" "a\"b" null 12345678901234567890`},
		{"{{(fromJson .params.text).id}}", "9007199254740993"},
		{"{{index .params.list 1}} {{(index .params.list 2).k}} {{index .params.object \"b\"}}", "x 2 1"},
		{"{{(index .steps \"my-step\").output.id}}", "7"},
		{"{{eq .params.n 3}} {{eq .params.f 2.5}} {{gt .params.n 2.5}} {{lt .params.big 5}} {{ge .params.f 2}} {{le 1 1}}", "true true true false true true"},
		{"{{eq .params.big 12345678901234567890}}", "overflows int"},
		{"{{eq .steps.one.status \"failed\" \"completed\"}} {{ne .steps.one.status \"failed\"}}", "true true"},
		{"{{eq .params.nil nil}} {{eq .params.nope \"x\"}} {{eq .params.t true}} {{eq .params.t false}}", "true false true false"},
		{"{{and .params.t (gt .params.n 1)}} {{or .params.nope \"else\"}} {{not .params.t}}", "true else false"},
		{"{{len .params.list}} {{slice .params.s 1}} {{printf \"%03d|%-4s|%.2f|%v\" .params.n \"x\" .params.f .params.list}}", `3 "b 003|x   |2.50|[1,"x",{"k":2}]`},
		{"{{range $i, $x := .params.list}}{{$i}}={{$x}};{{else}}none{{end}}{{range 3}}.{{end}}", `0=1;1=x;2={"k":2};...`},
		{"{{range $k, $v := .params.object}}{{$k}}={{$v}};{{end}}{{range .params.nope}}x{{else}}none{{end}}", "a=<&>;b=1;none"},
		{"{{range .params.list}}{{if eq (json .) \"1\"}}{{continue}}{{end}}{{.}}{{break}}{{end}}", "x"},
		{"{{with .steps.one}}{{.output.text}} {{$.params.n}}{{end}}", "hi 3"},
		{"{{$x := .params.n}}{{$x = 5}}{{$x}}{{/* said */ -}} \n end", "5end"},
		{"{{print .params.n \"a\" 1 2}}{{html .params.object.a}}{{urlquery \"a b\"}}{{js \"'\"}}", `3a1 2&lt;&amp;&gt;a+b\'`},
		{"{{define \"line\"}}{{.params.n}}{{end}}", "3"},

		{"{{.params.nope}}", "{{.params.nope}} has no value"},
		{"{{.params.nope.deeper}}", "{{.params.nope.deeper}} has no value"},
		{"{{.param.n}}", "there is no .param here: there are .params .steps .workflow"},
		{"{{$.vars.n}}", "there is no .vars here"},
		{"{{.forEach.item}}", "there is no .forEach here"},
		{"{{if .params.n}}", "unexpected EOF"},
		{"{{nope 1}}", `function "nope" not defined`},
		{"{{call .params.n}}", "there is no function call"},
		{"{{_show \"x\" 1}}", "there is no function _show"},
		{"{{1 | _range 1}}", "there is no function _range"},
		{"{{template \"line\" .}}", "a template cannot call another"},
		{"{{define \"a\"}}{{template \"a\"}}{{end}}{{template \"a\"}}", "a template cannot define others"},
		{"{{block \"a\" .}}x{{end}}", "a template cannot define others"},
		{"{{define \"line\"}}{{template \"line\"}}{{end}}", "a template cannot call another"},
		{"{{gt .params.s 1}}", "a text and a number cannot be compared"},
		{"{{lt .params.list .params.list}}", "a list and a list cannot be compared"},
		{"{{lt true false}}", "truth values have no order"},
		{"{{index .params.list 3}}", "a list of 3 has no item 3"},
		{"{{index .params.n 3}}", "int64 is neither a list nor an object"},
		{"{{fromJson \"{\"}}", `fromJson of "{": unexpected EOF`},
		{"{{fromJson \"1 2\"}}", "more than one value"},
		{"{{range .params.s}}x{{end}}", "range can't iterate over"},
		{"{{quote .params.nope}}", "has no value"},
	} {
		got, err := fillOf(t, row.text)
		if err != nil {
			got = err.Error()
		}
		if got != row.want && (err == nil || !strings.Contains(got, row.want)) {
			t.Errorf("%s\n got %s\nwant %s", row.text, got, row.want)
		}
	}
}

// TestTemplateEnds fills templates that would never end, or grow without limit.
func TestTemplateEnds(t *testing.T) {
	loop := func(n int, body string) string {
		return strings.Repeat("{{range $.params.list}}", n) + body + strings.Repeat("{{end}}", n)
	}
	for name, row := range map[string]struct{ text, want string }{
		"rounds":            {"{{range 1000000000000}}{{end}}", "too much work"},
		"negative":          {"{{range -5}}x{{end}}", ""},
		"rounds in rounds":  {"{{range 1000}}{{range 1000}}{{range 1000}}{{end}}{{end}}{{end}}", "too much work"},
		"lists in lists":    {loop(20, "x"), "too much work"},
		"nothing written":   {loop(30, ""), "too much work"},
		"sorting long keys": {"{{$m := fromJson (printf \"{%q:1,%q:2}\" (slice .params.long 0 1000000) .params.long)}}{{range 10000}}{{range $m}}{{break}}{{end}}{{end}}", "too much work"},
		"sorting":           {"{{range 100000}}{{range $.params.object}}{{break}}{{end}}{{end}}", "too much work"},
		"doubling":          {"{{$x := \"ab\"}}{{range 60}}{{$x = print $x $x}}{{end}}", "a function"},
		"doubling JSON":     {"{{$x := \"\\\"\"}}{{range 60}}{{$x = json $x}}{{end}}", "a function makes"},
		"doubling quotes":   {"{{$x := \"\\\"\"}}{{range 60}}{{$x = quote $x}}{{end}}", "a function makes"},
		"doubling html":     {"{{$x := \"&\"}}{{range 60}}{{$x = print (html $x) (html $x)}}{{end}}", "a function"},
		"doubling urls":     {"{{$x := \"&\"}}{{range 60}}{{$x = print (urlquery $x) $x}}{{end}}", "a function"},
		"growing":           {"{{$x := \"ab\"}}{{range 100000}}{{$x = print $x \"0123456789\"}}{{end}}", "too much work"},
		"written":           {"{{range 150000}}0123456789012345678901234567890123456789{{end}}", "makes more than"},
		"wide":              {"{{printf \"%1000000000d\" 1}}", "a width in the format of printf has 10 digits"},
		"precise":           {"{{printf \"%.1000000000f\" 1.0}}", "a width"},
		"zeros":             {"{{printf \"%00000000100000d\" 1}}", "a width"},
		"star":              {"{{printf \"%*d\" 1000000000 1}}", "printf takes no *"},
		"again":             {"{{printf \"%[1]s%[1]s\" \"a\"}}", "printf takes no ["},
		"wide star":         {"{{printf \"%5.*d\" 1 1}}", "printf takes no *"},
		"long format":       {"{{$f := \"%999d\"}}{{range 14}}{{$f = print $f $f}}{{end}}{{printf $f 1}}", "the format of printf has"},
		"many widths":       {"{{printf \"" + strings.Repeat("%999d", 8000) + "\"" + strings.Repeat(" 1", 8000) + "}}", "a function makes"},
		"many arguments": {"{{$x := \"a\"}}{{range 20}}{{$x = print $x $x}}{{end}}{{print" + strings.Repeat(" $x", 1000) + "}}",
			"a function is given more than"},
		"long keys": {"{{$x := \"a\"}}{{range 20}}{{$x = print $x $x}}{{end}}{{range 1000}}{{index $.params $x}}{{end}}", "has no value"},
		"long keys unseen": {"{{$x := \"a\"}}{{range 20}}{{$x = print $x $x}}{{end}}{{range 1000}}{{if index $.params $x}}{{end}}{{end}}",
			"too much work"},
		"comparing": {"{{$x := \"a\"}}{{range 20}}{{$x = print $x $x}}{{end}}{{range 1000}}{{if eq $x $x}}{{end}}{{end}}", "too much work"},
		"reading":   {"{{$x := \"[]\"}}{{range 20}}{{$x = print $x \",\" $x}}{{end}}{{range 90}}{{$y := fromJson (print \"[\" $x \"]\")}}{{end}}", "too much work"},
		"nested":    {strings.Repeat("{{if .params.t}}", 100) + strings.Repeat("{{end}}", 100), "nests more than 64 deep"},
		"brackets":  {"{{" + strings.Repeat("(", 100) + "1" + strings.Repeat(")", 100) + "}}", "nests more than 64 deep"},
		"deeper":    {"{{" + strings.Repeat("(", 20000), "max expression depth"},
		"long":      {"{{1}}" + strings.Repeat(" ", MaxTemplate), "the template has 65541 bytes"},
		"digits":    {"{{$x := \"1\"}}{{range 11}}{{$x = print $x $x}}{{end}}{{fromJson $x}}", "a number has 2048 bytes"},
		"recursion": {"{{define \"a\"}}{{template \"a\" .}}{{end}}{{template \"a\" .}}", "cannot define others"},
	} {
		began := time.Now()
		got, err := fillOf(t, row.text)
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %.40q, %v, want %q", name, got, err, row.want)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}

// TestTemplateCancelled ends a template by its context.
func TestTemplateCancelled(t *testing.T) {
	p, err := parsePhrase("{{range 10}}{{print 1}}{{end}}", roots)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.fill(map[string]any{}, &meter{ctx: ctx, left: 1000}, 100); err != context.Canceled && !strings.Contains(err.Error(), "context canceled") {
		t.Error(err)
	}
}

func TestReads(t *testing.T) {
	p, err := parsePhrase(`{{.steps.a.output.x.y}}{{$.steps.b.status}}{{with .params}}{{.steps.no}}{{$.steps.c}}{{end}}{{range .steps.d.output}}{{end}}{{(index .steps "e-f").output}}`, roots)
	if err != nil {
		t.Fatal(err)
	}
	want := []read{{"a", "x"}, {"b", ""}, {"c", ""}, {"d", ""}, {"e-f", ""}}
	if len(p.reads) != len(want) {
		t.Fatalf("got %v", p.reads)
	}
	for i := range want {
		if p.reads[i] != want[i] {
			t.Errorf("got %v, want %v", p.reads, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, row := range []struct {
		text string
		want any
	}{
		{"0", int64(0)},
		{"-0", int64(0)},
		{"9223372036854775807", int64(9223372036854775807)},
		{"9223372036854775808", json.Number("9223372036854775808")},
		{"1.50", 1.5},
		{"0.0", 0.0},
		{"1e2", 100.0},
		{"123456789012345.6", json.Number("123456789012345.6")},
		{"1e400", json.Number("1e400")},
		{"1e-400", json.Number("1e-400")},
	} {
		if got, err := decode([]byte(row.text)); got != row.want || err != nil {
			t.Errorf("%s: %v %T, %v", row.text, got, got, err)
		}
	}
}
