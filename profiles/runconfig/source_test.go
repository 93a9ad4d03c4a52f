package runconfig

import (
	"strings"
	"testing"

	"hutch/fs"
)

func TestSource(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0a", 32)
	for ref, want := range map[string]Source{
		"fetch":             {Kind: Named, Name: "fetch"},
		"mcp/fetch":         {Kind: Named, Name: "mcp/fetch"},
		"io.github.a/B_1.2": {Kind: Named, Name: "io.github.a/B_1.2"},

		"fetch:latest":                 {Kind: Image, Name: "fetch:latest"},
		"mcp/fetch:1.0":                {Kind: Image, Name: "mcp/fetch:1.0"},
		"ghcr.io/a/b":                  {Kind: Image, Name: "ghcr.io/a/b"},
		"ghcr.io/a/b/c__d:v1" + digest: {Kind: Image, Name: "ghcr.io/a/b/c__d:v1" + digest},
		"localhost:5000/a":             {Kind: Image, Name: "localhost:5000/a"},
		"REGISTRY.example:443/a/b":     {Kind: Image, Name: "REGISTRY.example:443/a/b"},
		"a" + digest:                   {Kind: Image, Name: "a" + digest},

		"npx://a":                      {Kind: NPX, Name: "a"},
		"npx://a@1.2.3-beta.1+x":       {Kind: NPX, Name: "a", Version: "1.2.3-beta.1+x"},
		"npx://a@^1.2":                 {Kind: NPX, Name: "a", Version: "^1.2"},
		"npx://@scope/a":               {Kind: NPX, Name: "@scope/a"},
		"npx://@scope/a.b-c_d@latest":  {Kind: NPX, Name: "@scope/a.b-c_d", Version: "latest"},
		"uvx://mcp-server-git":         {Kind: UVX, Name: "mcp-server-git"},
		"uvx://a@2025.1":               {Kind: UVX, Name: "a", Version: "2025.1"},
		"uvx://a==1!2.0+local":         {Kind: UVX, Name: "a", Version: "1!2.0+local"},
		"uvx://a[cli,http]@latest":     {Kind: UVX, Name: "a", Extras: "cli,http", Version: "latest"},
		"go://github.com/a/b":          {Kind: Go, Name: "github.com/a/b"},
		"go://example.org/a/cmd/B@v1":  {Kind: Go, Name: "example.org/a/cmd/B", Version: "v1"},
		"go://gopkg.in/a.v2@latest":    {Kind: Go, Name: "gopkg.in/a.v2", Version: "latest"},
		"go://a.example/b@feature/one": {Kind: Go, Name: "a.example/b", Version: "feature/one"},

		"/srv/a prog/é.sh":          {Kind: Own, Name: "/srv/a prog/é.sh"},
		"go:///srv/x@2":             {Kind: Go, Name: "/srv/x@2"},
		"image:build-1":             {Kind: Here, Name: "build-1"},
		"https://a.example/mcp?x=1": {Kind: Remote, Name: "https://a.example/mcp?x=1"},
		"http://127.0.0.1:80/mcp":   {Kind: Remote, Name: "http://127.0.0.1:80/mcp"},
		"https://[::1]:443":         {Kind: Remote, Name: "https://[::1]:443"},
	} {
		got, err := ParseSource(ref)
		if got != want || err != nil {
			t.Errorf("%s: %+v, %v, want %+v", ref, got, err, want)
		}
		if again, err := ParseSource(got.String()); again != got || err != nil {
			t.Errorf("%s is written %s, which is %+v, %v", ref, got, again, err)
		}
	}
}

func TestSourceRefused(t *testing.T) {
	for ref, want := range map[string]string{
		"":                        "is empty",
		"a b":                     "blank",
		"a\x00":                   "not shown",
		"bücher":                  "not ASCII",
		strings.Repeat("a", 1025): "1025 bytes",
		"docker://a":              "begins with docker://",
		"file:///etc/passwd":      "begins with file://",
		"NPX://a":                 "begins with NPX://",
		"/":                       "is no plain path",
		"/srv/../a":               "is no plain path",
		"/srv/a:b":                "has a colon",
		"/srv/a\x1b":              "not shown",
		"./a":                     "is relative to nothing here",
		"../a/b":                  "is relative to nothing here",
		"image:":                  "no name of an image below images",
		"image:a/b":               "no name of an image below images",
		"-a":                      "is no image",
		"-a:5/b":                  "is no image",
		"a@1.2":                   "is no image",
		"A:latest":                "is no image",
		"a:b:c":                   "is no image",
		"a@sha256:12":             "is no image",

		"npx://":                            "is no package of npm",
		"npx://@a":                          "is no package of npm",
		"npx://@/a":                         "is no package of npm",
		"npx://a/b":                         "is no package of npm",
		"npx://-g":                          "is no package of npm",
		"npx://../a":                        "is no package of npm",
		"npx://.a":                          "is no package of npm",
		"npx://a@":                          "is no version",
		"npx://a@-g":                        "is no version",
		"npx://a@1;id":                      "is no version",
		"npx://a@file:/x":                   "is no version",
		"npx://git+ssh://a/b":               "is no package of npm",
		"npx://" + strings.Repeat("a", 215): "is no package of npm",

		"uvx://":          "is no package of PyPI",
		"uvx://-a":        "is no package of PyPI",
		"uvx://a[":        "is no package of PyPI",
		"uvx://a[]":       "list like",
		"uvx://a]":        "list like",
		"uvx://a[x;y]":    "list like",
		"uvx://a@":        "is no version",
		"uvx://a@-x":      "is no version",
		"uvx://a==1==2":   "is no version",
		"uvx://a>=1":      "is no package of PyPI",
		"uvx://git+https": "is no package of PyPI",

		"go://":                   "is no package of a module",
		"go://a":                  "is no package of a module",
		"go://-x.com/a":           "is no package of a module",
		"go://./cmd/x":            "is relative to nothing here",
		"go:///srv//x":            "is no plain path",
		"go://a.example/../b":     "is no package of a module",
		"go://a.example/b@":       "is no version",
		"go://a.example/b@v1/../": "is no version",
		"go://a.example/b c":      "blank",

		"https://":                  "URL",
		"https://a:b@a.example/":    "has a user",
		"https://a.example/#x":      "has a #",
		"https://127.1/":            "is no name of a host",
		"https://0x7f000001/mcp":    "is no name of a host",
		"https://[fe80::1%25eth0]/": "is no name of a host",
		"https://a.example:port/":   "cannot be read",
	} {
		s, err := ParseSource(ref)
		switch {
		case err == nil:
			t.Errorf("%q is %+v", ref, s)
		case !fs.Is(err, fs.ErrInvalid) || !strings.Contains(err.Error(), want):
			t.Errorf("%q: %v, want %s", ref, err, want)
		}
	}
}

func TestAsImage(t *testing.T) {
	for name, want := range map[string]Kind{"fetch": Image, "mcp/fetch": Image, "io.github.a/B": "", "npx://a": NPX, "https://a.example": Remote} {
		s, err := ParseSource(name)
		if err != nil {
			t.Fatal(err)
		}
		if i, err := s.AsImage(); i.Kind != want || (err == nil) != (want != "") {
			t.Errorf("%s: %+v, %v", name, i, err)
		}
	}
}

// FuzzSource: what is a source is written so that it is the same, and no program
// takes it for a flag, a path or two words.
func FuzzSource(f *testing.F) {
	for _, s := range []string{"fetch", "ghcr.io/a/b:1", "npx://@a/b@1", "uvx://a[b]==1", "go://a.b/c@v1", "https://a.example/mcp"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		s, err := ParseSource(ref)
		if err != nil {
			return
		}
		if again, err := ParseSource(s.String()); again != s || err != nil {
			t.Errorf("%q is %+v, and written %q, which is %+v, %v", ref, s, s, again, err)
		}
		if s.Kind == Remote || s.Path() != "" {
			return
		}
		for _, part := range []string{s.Name, s.Version, s.Extras} {
			if strings.HasPrefix(part, "-") || strings.HasPrefix(part, "/") || strings.ContainsAny(part, " \t\n\x00\\'\"`$;&|<>(){}*?#") {
				t.Errorf("%q has %q", ref, part)
			}
			for element := range strings.SplitSeq(part, "/") {
				if element == ".." || element == "." {
					t.Errorf("%q has %q", ref, part)
				}
			}
		}
	})
}
