package ledger

import (
	"encoding/json"
	"testing"
)

// What a terminal would show as something else is escaped.
func TestAppendText(t *testing.T) {
	for in, want := range map[string]string{
		"é 日 😀\"\\": `"é 日 😀\"\\"`, "gpj.\u202eexe": `"gpj.\u202eexe"`, "\x1b\x7f\u0085\u009b\u2028\u2029\n": `"\u001b\u007f\u0085\u009b\u2028\u2029\n"`,
		"\u061c\u200e\u200f\u202a\u202c\u2066\u2069": `"\u061c\u200e\u200f\u202a\u202c\u2066\u2069"`,
	} {
		got := appendText(nil, in)
		if string(got) != want {
			t.Errorf("%q is %s, want %s", in, got, want)
		}
		var back string
		if err := json.Unmarshal(got, &back); err != nil || back != in {
			t.Errorf("%s says %q, %v", got, back, err)
		}
	}
}
