package policy

import (
	"strings"
	"testing"
)

func TestFits(t *testing.T) {
	for _, row := range []struct{ schema, text, want string }{
		{"", "[1]", ""},
		{`{"minimum":3}`, "12345678901234567890", ""},
		{`{"minimum":3}`, "2", "breaks [minimum]"},
		{`{"required":["b","a"]}`, `{"b":1}`, `[] breaks [required]: there is no "a"`},
		{`{"minimum":3}`, `[1e5, {"a": 1e300}]`, ""},
		{`{"minimum":3}`, "1e99999999", "too large"},
		{`{"minimum":3}`, "1E-99999999", "too large"},
		{`{"items":{"minimum":3}}`, `[1e999999]`, "too large"},
		{`{"minimum":3}`, strings.Repeat("1", 2000), "too long"},
		{`{"minimum":1e99999999}`, "2", "the schema cannot be read"},
		{`{"type":"text"}`, "2", "the schema cannot be read"},
		{`{"$ref":"file:///etc/passwd"}`, "2", "the schema cannot be read"},
	} {
		err := Fits([]byte(row.schema), []byte(row.text))
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s of %.40s: %v, want %q", row.schema, row.text, err, row.want)
		}
	}
}
