package rawjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestPlain(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth) + "1," + strings.Repeat("]", MaxDepth)
	for text, want := range map[string]string{
		`{"a":1}`:                               `{"a":1}`,
		"{\"a\": 1, // one\n}":                  "{\"a\": 1        \n}\n",
		"{} // //":                              "{}      \n",
		"{\"a\": \"//\", /* { */}":              "{\"a\": \"//\"         }\n",
		`{"a":`:                                 `{"a":`,
		"[1,] x":                                "[1,] x",
		deep:                                    strings.Replace(deep, ",", " ", 1) + "\n",
		"[" + deep + "]":                        "[" + deep + "]",
		strings.Repeat("[", 1<<20):              strings.Repeat("[", 1<<20),
		"[" + strings.Repeat(" ", 1<<20) + ",]": "[" + strings.Repeat(" ", 1<<20) + ",]",
	} {
		if got := string(Plain([]byte(text))); got != want {
			t.Errorf("%.40q is %.40q, want %.40q", text, got, want)
		}
	}
}

func TestMeasure(t *testing.T) {
	for text, want := range map[string][2]int{
		"": {0, 0}, "1": {0, 0}, "{}": {1, 1}, `{"a":[1,2,{"b":1}]}`: {5, 3}, `["[","\"[",/*[,*/1, // [,` + "\n2]": {4, 1}, "]][[": {2, 0}, `["[`: {1, 1}, "[/*[": {1, 1},
	} {
		if values, depth := Measure([]byte(text)); values != want[0] || depth != want[1] {
			t.Errorf("%q: %d values, %d deep, want %d", text, values, depth, want)
		}
	}
}

// FuzzPlain: what is read of a text with comments is JSON that is no deeper than was
// measured, and JSON stays as it is.
func FuzzPlain(f *testing.F) {
	for _, text := range []string{"{\"a\": 1, // one\n}", "[/**/]", `{"a":"\"//"}`, "[[[", "/*", "\"\\"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		plain := Plain(text)
		if json.Valid(text) && !bytes.Equal(plain, text) {
			t.Errorf("%q is %q", text, plain)
		}
		_, depth := Measure(text)
		if _, found := Measure(plain); json.Valid(plain) && found > depth {
			t.Errorf("%q is %d deep, and then %d", text, depth, found)
		}
	})
}
