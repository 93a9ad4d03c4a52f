package guard

import (
	"strings"
	"testing"
)

func TestPath(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "/": "/", "/a/b": "/a/b", "/%61dmin": "/admin", "//a///b/": "/a/b/", "/a%2Fb": "/a/b", "/a%252e%252e": "/a%2e%2e",
		"/..a/b..": "/..a/b..", "/...": "/...", "/%2fadmin": "/admin", "*": "*", "/a b": "/a b",
	} {
		if got, err := Path(in); got != want || err != nil {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	for _, in := range []string{
		"/..", "/../a", "/a/..", "/a/./b", "/%2e%2e/a", "/%2E./a", "/a%2f..%2fb", "/a%5c..%5cb", `/a\..\b`, "/..;x/a", "/a%00", "/%", "/%zz",
	} {
		if got, err := Path(in); err == nil {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func FuzzPath(f *testing.F) {
	f.Add("/a/%2e%2e/b")
	f.Add("//%5c..")
	f.Fuzz(func(t *testing.T, in string) {
		path, err := Path(in)
		if err != nil {
			return
		}
		if strings.Contains(path, "//") || strings.Contains("/"+path+"/", "/../") || strings.Contains("/"+path+"/", "/./") || strings.ContainsRune(path, 0) {
			t.Errorf("%q is %q", in, path)
		}
	})
}
