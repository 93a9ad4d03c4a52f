package oauth

import (
	"fmt"
	"strings"
	"testing"
)

func TestChallenges(t *testing.T) {
	for header, want := range map[string]string{
		`Bearer`: "map[]", `bearer realm="a b", scope=x`: "map[realm:a b scope:x]", `Basic realm="x, Bearer y", Bearer error="a\"b\\"`: `map[error:a"b\]`,
		`Negotiate YII/a+b==, Bearer a=b`: "map[a:b]", `Bearer A=1, a=2`: "map[a:1]", `Bearer a = "1" , b= 2,`: "map[a:1 b:2]", ` , Bearer a=1`: "map[a:1]",
		`Basic a=1`: "map[]", ``: "map[]", `Bearer a="`: "map[]", `Bearer a=,b=2`: "map[b:2]", `Bearer a="x`: "map[]", `=`: "map[]", "Bearer \x00, Bearer b=1": "map[]",
	} {
		if got := fmt.Sprint(bearer([]string{header}).params); got != want {
			t.Errorf("%s: %s, want %s", header, got, want)
		}
	}
}

func FuzzChallenges(f *testing.F) {
	f.Add(`Basic realm="x", Bearer resource_metadata="https://a.example", scope="a b"`)
	f.Add(`Negotiate YII/a+b==, Bearer a="\`)
	f.Fuzz(func(t *testing.T, header string) {
		for _, c := range parseChallenges(header) {
			if c.scheme == "" || c.scheme != strings.ToLower(c.scheme) {
				t.Errorf("the scheme %q", c.scheme)
			}
			for name := range c.params {
				if name == "" || strings.ContainsAny(name, " \t,=\"\\") {
					t.Errorf("the parameter %q", name)
				}
			}
		}
	})
}
