package reference

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"secret:gh": "secret gh", "secret:a.b-c_1": "secret a.b-c_1",
		"env:GH_TOKEN": "env GH_TOKEN", "file:/etc/token": "file /etc/token", "file:/a b/c": "file /a b/c",
		"vault:kv/app/token": "vault kv/app/token", "vault:a/b/c/d": "vault a/b/c/d",

		"": "", "plain": "", "Secret:gh": "", "a secret:gh": "", " secret:gh": "", "https://secret:pw@host/": "", "environment:X": "",

		"secret:": "error", "secret:a/b": "error", "secret:..": "error", "secret:a b": "error", "secret:gh\n": "error",
		"env:": "error", "env:1A": "error", "env:A-B": "error", "env:A\x00": "error",
		"file:": "error", "file:token": "error", "file:/a/../b": "error", "file:///etc/token": "error", "file:/etc/": "error",
		"vault:": "error", "vault:kv/key": "error", "vault:kv//key": "error", "vault:kv/../sys/key": "error", "vault:kv/a?b/c": "error", "vault:kv/%2e%2e/c": "error",
		"secret:" + strings.Repeat("a", 65): "error", "file:/" + strings.Repeat("a", 2000): "error",
	} {
		r, ok, err := Parse(text)
		got := ""
		switch {
		case err != nil:
			got = "error"
		case ok:
			got = r.Scheme + " " + r.Name
			if r.String() != text || !Is(text) {
				t.Errorf("%q is written as %q", text, r)
			}
		}
		if got != want {
			t.Errorf("%q: %q (%v), want %q", text, got, err, want)
		}
	}
}

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]string{
		"gh,target=TOKEN":              "secret:gh TOKEN",
		"env:GH,target=TOKEN":          "env:GH TOKEN",
		"vault:kv/a/b,target=T":        "vault:kv/a/b T",
		"file:/a,target=b,target=C":    "", // it names no variable
		"gh":                           "",
		"gh,target=":                   "",
		"gh,target=A B":                "",
		",target=A":                    "",
		"a/b,target=A":                 "",
		"file:b,target=A":              "",
		"gh,target=LD_PRELOAD=/x.so":   "",
		"gh,target=" + "A\nB=C":        "",
		"sec\x00ret,target=A":          "",
		"secret:gh,target=A":           "secret:gh A",
		"vault:kv/../x/k,target=TOKEN": "",
	} {
		r, variable, err := ParseTarget(text)
		got := r.String() + " " + variable
		if err != nil {
			got = ""
		}
		if got != want {
			t.Errorf("%q: %q (%v), want %q", text, got, err, want)
		}
	}
}

// A secret that stands where its name is to be is refused, and not told.
func TestSecretIsNoName(t *testing.T) {
	for _, secret := range []string{"ghp_zbcdefghijklmnopqrstuvwxyz0123456789", "sk-0123456789abcdef", "eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl"} {
		_, _, asReference := Parse("secret:" + secret)
		_, _, asVariable := Parse("env:" + secret)
		_, _, asTarget := ParseTarget(secret + ",target=bearer_token")
		_, _, targetless := ParseTarget(secret)
		_, asNamed := ParseNamed(secret)
		for _, err := range []error{CheckName(secret), asReference, asVariable, asTarget, targetless, asNamed} {
			if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "hutch secret set NAME") {
				t.Errorf("%s: %v", secret, err)
			}
		}
	}
	for _, name := range []string{"github-token", "password", "API_KEY", "npm_token", "bearer.token", "-token", "sk-prod", "token_2026"} {
		if err := CheckName(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzParse looks for a text that is a reference and means two things.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"secret:gh", "env:A", "file:/a/b", "vault:a/b/c", "file:///x", "a,target=B"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, ok, err := Parse(text)
		if ok && (err != nil || r.String() != text || strings.ContainsAny(text, "\x00\n") || strings.Contains(text+"/", "/../")) {
			t.Errorf("%q is %+v (%v)", text, r, err)
		}
		if r, variable, err := ParseTarget(text); err == nil {
			if again, _, err := Parse(r.String()); err != nil || again != r || strings.ContainsAny(variable, "=\x00\n") {
				t.Errorf("%q is %+v and %q", text, r, variable)
			}
		}
	})
}
