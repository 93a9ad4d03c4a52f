package guard

import "testing"

func TestHost(t *testing.T) {
	for in, want := range map[string]string{
		"example.com": "example.com", "EXAMPLE.com.": "example.com", "a_b.example": "a_b.example", "localhost": "localhost",
		"bücher.example": "xn--bcher-kva.example", "BÜCHER.example.": "xn--bcher-kva.example", "xn--bcher-kva.example": "xn--bcher-kva.example",
		"ｅｘａｍｐｌｅ．com": "example.com", "example。com": "example.com", // as browsers have it
		"10.0.0.1": "10.0.0.1", "[::1]": "::1", "2606:4700::1111": "2606:4700::1111", "[::FFFF:10.0.0.1]": "10.0.0.1",
		// what somebody might read as an address
		"127.1": "", "2130706433": "", "0x7f000001": "", "0x7f.1": "", "a.0x1": "", "127.0.0.01": "", "1.2.3.4.5": "", "①②⑦.1": "",
		"": "", ".": "", "a..b": "", ".a": "", "a b": "", "a/b": "", "a\x00b": "", "a%2eb": "", "-a.b": "", "a-.b": "", "a:80": "", "user@a": "",
		"[::1": "", "::1]": "", "[fe80::1%25eth0]": "", "fe80::1%eth0": "", "[a.b]": "", "a\u00adb..c": "", "\u2024.com": "", "a..": "",
	} {
		got, err := Host(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
}

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		pattern, host string
		ok            bool
	}{
		{"pypi.org", "pypi.org", true}, {"PyPI.org.", "pypi.org", true}, {"pypi.org", "xpypi.org", false}, {"pypi.org", "x.pypi.org", false},
		{"pypi.org", "pypi.org.evil.example", false}, {"*.debian.org", "deb.debian.org", true}, {"*.debian.org", "a.b.debian.org", true},
		{"*.debian.org", "debian.org", false}, {"*.debian.org", "xdebian.org", false}, {"*.debian.org", "debian.org.evil.example", false},
		{"*", "anything.example", true}, {"*", "10.0.0.1", true}, {"*.bücher.example", "a.xn--bcher-kva.example", true},
		{"10.0.0.1", "10.0.0.1", true}, {"[::1]:80", "::1", true}, {"::1", "::1", true}, {"*.0.0.1.example", "10.0.0.1", false},
	} {
		p, err := ParsePattern(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
		} else if p.Match(c.host) != c.ok {
			t.Errorf("%s and %s: %t", c.pattern, c.host, !c.ok)
		}
	}
	for pattern, port := range map[string]uint16{"a.b": 0, "a.b:8080": 8080, "*:25": 25, "[::1]:443": 443, "2001:db8::443": 0} {
		if p, err := ParsePattern(pattern); err != nil || p.Port() != port || p.String() != pattern {
			t.Errorf("%s: %d, %v", pattern, p.Port(), err)
		}
	}
	for _, bad := range []string{"", "*.", "**", "*x.org", "a.*.b", "a.*", "http://a", "a/b", "a:0", "a:65536", "a:", ":80", "a:b", "*.10.0.0.1", "10.0.0.0/8", "127.1"} {
		if p, err := ParsePattern(bad); err == nil {
			t.Errorf("%q is %+v", bad, p)
		}
	}
	if _, err := ParsePattern("https://pypi.org"); err == nil || err.Error() != `"https://pypi.org" is no name of a host` {
		t.Errorf("a URL: %v", err)
	}
	if (Pattern{}).Match("a.b") {
		t.Error("no pattern matches")
	}
}

// FuzzHost: what is a host stays the same when it is read again, and has
// nothing in it that another reader could take for an end.
func FuzzHost(f *testing.F) {
	for _, s := range []string{"example.com.", "BÜCHER.example", "[::1]", "10.0.0.1", "0x7f.1", "a\u3002b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, err := Host(s)
		if err != nil {
			return
		}
		again, err := Host(name)
		if again != name || err != nil {
			t.Errorf("%q is %q, and that %q, %v", s, name, again, err)
		}
		for _, c := range name {
			if c <= ' ' || c >= 0x7f || c == '/' || c == '@' || c == '%' || c == '[' || c == ']' || c == '*' {
				t.Errorf("%q is %q", s, name)
			}
		}
	})
}

func FuzzPattern(f *testing.F) {
	for _, s := range []string{"*.debian.org", "pypi.org:443", "*", "[::1]:80", "*:80"} {
		f.Add(s, "deb.debian.org")
	}
	f.Fuzz(func(t *testing.T, s, host string) {
		p, err := ParsePattern(s)
		if err != nil {
			return
		}
		if h, err := Host(host); err == nil && p.below != "" && p.Match(h) != p.Match("x."+h) && p.Match(h) {
			t.Errorf("%q matches %q and not what is below", s, h)
		}
	})
}
