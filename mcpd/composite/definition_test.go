package composite

import (
	"os"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

func TestParse(t *testing.T) {
	text, err := os.ReadFile("testdata/report.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if d.Name != "report" || time.Duration(d.Timeout) != 10*time.Minute || len(d.Steps) != 3 {
		t.Errorf("got %+v", d)
	}
	each := d.Steps[1]
	if each.Type != "forEach" || each.Step == nil || each.Step.Tool != "osv.query" || each.MaxIterations != 200 || each.OnError.RetryCount != 0 {
		t.Errorf("step %+v", each)
	}
	if p := d.Output.Properties["total"]; p.Type != "integer" || p.Default.IsZero() {
		t.Errorf("property %+v", p)
	}
	if d.Annotations == nil || *d.Annotations.ReadOnly != true || d.Annotations.Destructive != nil {
		t.Errorf("annotations %+v", d.Annotations)
	}
}

// TestEmbedded decodes definitions as part of a larger document, strictly.
func TestEmbedded(t *testing.T) {
	var doc struct {
		CompositeTools []Definition `yaml:"compositeTools"`
	}
	dec := yaml.NewDecoder(strings.NewReader("compositeTools:\n- {name: a, steps: [{id: x, tool: s.t, arguments: {n: 1}}]}\n"))
	dec.KnownFields(true)
	if err := dec.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	if got, err := doc.CompositeTools[0].Steps[0].Arguments.JSON(MaxDefinition); string(got) != `{"n":1}` || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"", "nothing is there"},
		{"name: a\n---\nname: b\n", "want one document"},
		{"name: a\nnom: b\n", "field nom not found"},
		{"name: a\nsteps: [{id: x, onError: {retries: 3}}]\n", "field retries not found"},
		{"name: a\ntimeout: 5\n", `"5" is no duration`},
		{"name: [a]\n", "cannot unmarshal"},
		{"name: \x00\n", "control characters are not allowed"},
		{strings.Repeat(" ", MaxDefinition+1), "bytes, at most 1048576"},
		{strings.Repeat("[", 20000), "exceeded max depth"},
	} {
		if _, err := Parse([]byte(row.text)); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%.40q: %v, want %q", row.text, err, row.want)
		}
	}
}

func TestValue(t *testing.T) {
	for _, row := range []struct{ yaml, json string }{
		{"a", `"a"`},
		{"'12'", `"12"`},
		{"12345678901234567890123", "12345678901234567890123"},
		{"0.10000000000000000001", "0.10000000000000000001"},
		{"1e400", "1e400"},
		{"-0", "-0"},
		{"0x1f", "31"},
		{"1_000", "1000"},
		{"+5", "5"},
		{".5", "0.5"},
		{"true", "true"},
		{"[1, null, ~, {a: b, 2: '<>'}]", `[1,null,null,{"a":"b","2":"<>"}]`},
		{"2026-11-25", `"2026-11-25"`},
		{"[&x [1], *x]", "[[1],[1]]"},
		{"{&k a: *k}", `{"a":"a"}`},
	} {
		var v struct{ V Value }
		if err := yaml.Unmarshal([]byte("v: "+row.yaml), &v); err != nil {
			t.Fatal(err)
		}
		if got, err := v.V.JSON(1000); string(got) != row.json || err != nil {
			t.Errorf("%s: %s, %v, want %s", row.yaml, got, err, row.json)
		}
	}
	if got, err := (Value{}).JSON(0); got != nil || err != nil {
		t.Errorf("no value: %s, %v", got, err)
	}
}

func TestValueRefuses(t *testing.T) {
	laughs := "[&a [x,x,x,x,x,x,x,x,x]"
	for c := 'b'; c < 'm'; c++ {
		laughs += ", &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 9) + "]"
	}
	for _, row := range []struct{ yaml, want string }{
		{".inf", "cannot be had in JSON"},
		{".nan", "cannot be had in JSON"},
		{"{a: 1, 'a': 2}", `the key "a" is there twice`},
		{"{[a]: 1}", "a key is no text"},
		{"[&x {a: 1}, {<<: *x}]", "cannot be merged"},
		{"&x [*x]", "deep in each other"},
		{"&x [*x, *x]", "in each other"},
		{laughs + "]", "more than 1000 bytes"},
		{strings.Repeat("[", 70) + strings.Repeat("]", 70), "more than 64 deep"},
		{strings.Repeat("x", 1000), "more than 1000 bytes"},
	} {
		var v struct{ V Value }
		if err := yaml.Unmarshal([]byte("v: "+row.yaml), &v); err != nil {
			t.Fatal(err)
		}
		if got, err := v.V.JSON(1000); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%.60s: %.100s, %v, want %q", row.yaml, got, err, row.want)
		}
	}
}
