package fs

import (
	"encoding/json"
	"slices"
	"testing"
)

// bidi are the characters that turn the direction of a text.
const bidi = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"

func TestQuoteLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "two words": "'two words'", `"x`: `'"x'`, "é日": "é日", "a\nb": `"a\nb"`, "\x1b[1m": `"\x1b[1m"`, "\u0085": `"\u0085"`,
		"a\u202etxt.exe": `"a\u202etxt.exe"`, "\xff": `"\xff"`,
	} {
		if got := QuoteLine(in); got != want {
			t.Errorf("QuoteLine(%q) is %s, want %s", in, got, want)
		}
	}
	for _, r := range bidi {
		if got := QuoteLine(string(r)); got[0] != '"' || len(got) != len(`"\u202e"`) {
			t.Errorf("QuoteLine(%q) is %s", r, got)
		}
	}
}

func TestLineWords(t *testing.T) {
	for _, tt := range []struct {
		line string
		n    int
		want []string // nil: refused
	}{
		{"", -1, []string{}},
		{"a  b c\n", -1, []string{"a", "b", "c"}},
		{`exec-1 "exec sh -c 'make\nmake test'"`, -1, []string{"exec-1", "exec sh -c 'make\nmake test'"}},
		{`'it''s' '"x"' ''`, -1, []string{"it's", `"x"`, ""}},
		{`"a\tb":1 'c d':2 "e`, 3, []string{"a\tb:1", "c d:2", `"e`}},
		{"a  'b' ", 2, []string{"a", "'b' "}},
		{"a", 2, []string{"a"}},
		{`a "b`, -1, nil},
		{`a "b\y"`, -1, nil},
		{"a 'b", -1, nil},
	} {
		got, err := LineWords(tt.line, tt.n)
		if !slices.Equal(got, tt.want) || (err == nil) != (tt.want != nil) {
			t.Errorf("LineWords(%q, %d) is %q, %v, want %q", tt.line, tt.n, got, err, tt.want)
		}
	}
}

func TestMarshalLine(t *testing.T) {
	for in, want := range map[string]string{
		"é 日 😀": `"é 日 😀"`, "a\u202etxt": `"a\u202etxt"`, "\x7f\u009b\u0085\u2028\n": `"\u007f\u009b\u0085\u2028\n"`, "\u200d": "\"\u200d\"",
		"a\u200b\u2060\ufeff": `"a\u200b\u2060\ufeff"`,
		bidi:                  `"\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"`,
	} {
		got, err := MarshalLine(in)
		if err != nil || string(got) != want {
			t.Errorf("MarshalLine(%q) is %s, %v, want %s", in, got, err, want)
		}
		var back string
		if err := json.Unmarshal(got, &back); err != nil || back != in {
			t.Errorf("%s says %q, %v", got, back, err)
		}
	}
}
