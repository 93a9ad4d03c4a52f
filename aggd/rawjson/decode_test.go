package rawjson

import (
	"strings"
	"testing"
)

func TestDecode(t *testing.T) {
	type target struct {
		Path   string `json:"path"`
		hidden bool
	}
	type args struct {
		target
		Limit *int64 `json:"limit"`
		Plain bool
		None  int `json:"-"`
	}
	for _, tt := range []struct{ text, want string }{
		{``, ""},
		{`{}`, ""},
		{` {"path":"a","limit":1,"Plain":true} `, ""},
		{`{"Path":"a"}`, `"Path" is not known`},
		{`{"path":"a","PATH":"b"}`, `"PATH" is not known`},
		{`{"path":"a","path":"b"}`, `ambiguous member "path": it stands there twice`},
		{`{"p\u0061th":"a"}`, ""},
		{`{"other":1}`, `"other" is not known`},
		{`{"None":1}`, `"None" is not known`},
		{`{"hidden":true}`, `"hidden" is not known`},
		{`{"limit":"x"}`, `"limit" takes no string`},
		{`{"limit":1e400}`, `"limit" takes no number`},
		{`[]`, "write an object, {…}, not the array that it is"},
		{`{} {}`, "more follows it"},
		{`{`, "unexpected EOF"},
	} {
		var a args
		err := Decode([]byte(tt.text), &a)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.text, err, tt.want)
		}
		_ = a.hidden
	}
}
