package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"hutch/fs"
	"hutch/profiles/registry/registrytest"
)

func read(t *testing.T, text string, away bool) *shelf {
	t.Helper()
	r := newReader("url https://a.example", away)
	if _, err := r.document([]byte(text)); err != nil {
		t.Fatalf("%v: %.200s", err, text)
	}
	return &r.shelf
}

// Every form of the same servers makes the same entries.
func TestForms(t *testing.T) {
	one, err := os.ReadFile("testdata/server.json")
	if err != nil {
		t.Fatal(err)
	}
	want := read(t, string(one), true).Entries
	if len(want) != 1 {
		t.Fatalf("%d entries", len(want))
	}
	for name, text := range map[string]string{
		"a list":               "[" + string(one) + "]",
		"an answer of v0.1":    `{"servers": [{"server": ` + string(one) + `, "_meta": {}}], "metadata": {"count": 1}}`,
		"the file of ToolHive": `{"$schema": "x", "version": "1.0.0", "meta": {"last_updated": "x"}, "data": {"servers": [` + string(one) + `], "groups": []}}`,
	} {
		if got := read(t, text, true).Entries; !reflect.DeepEqual(got, want) {
			t.Errorf("%s makes %+v", name, got)
		}
	}
}

// The golden entries are what the documents of testdata make.
func TestGolden(t *testing.T) {
	for _, name := range []string{"server", "toolhive", "remote", "packages"} {
		text, err := os.ReadFile("testdata/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		sh := read(t, string(text), true)
		for _, e := range sh.Entries {
			line, err := json.MarshalIndent(e, "", "\t")
			if err != nil {
				t.Fatal(err)
			}
			b.Write(append(line, '\n'))
		}
		for _, why := range sh.Refused.Reasons {
			b.WriteString("refused " + why + "\n")
		}
		golden := "testdata/" + name + ".golden"
		if os.Getenv("HUTCH_TEST_UPDATE") != "" {
			if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if b.String() != string(want) {
			t.Errorf("%s.json makes\n%s", name, b.String())
		}
	}
}

// What lies, or cannot be read, is kept out by itself, with the reason.
func TestRefused(t *testing.T) {
	pkg := func(fields string) string {
		return `{"name": "io.example/a", "version": "1", "packages": [{"registryType": "npm", "identifier": "p", "transport": {"type": "stdio"}, ` + fields + `}]}`
	}
	npmOf := func(id string) string {
		return `{"name": "io.example/a", "packages": [{"registryType": "npm", "identifier": ` + id + `, "transport": {"type": "stdio"}}]}`
	}
	ociOf := func(id string) string { return strings.Replace(npmOf(id), `"npm"`, `"oci"`, 1) }
	based := func(id, base string) string { return ociOf(fmt.Sprintf(`"%s", "registryBaseUrl": "%s"`, id, base)) }
	remote := func(url string) string {
		return `{"name": "io.example/a", "remotes": [{"type": "sse", "url": ` + url + `}]}`
	}
	for text, want := range map[string]string{
		`7`:                             "number, which it may not be",
		`{"name": 7}`:                   "name is a number",
		`{"name": "a", "packages": {}}`: "packages is a object",
		`{"name": "a", "name": "b"}`:    "ambiguous member",
		`{"name": "a"}`:                 "it has neither a package nor a remote",
		registrytest.NPM("a/b/c"):       "no name of an entry",
		registrytest.NPM(".."):          "no name of an entry",
		registrytest.NPM("a/.."):        "no name of an entry",
		strings.Replace(registrytest.NPM("ab"), "ab", `a\u0000b`, 1):         "no name of an entry",
		registrytest.NPM("a%2Fb"):                                            "no name of an entry",
		registrytest.NPM("-rm"):                                              "no name of an entry",
		registrytest.NPM("a/-rm"):                                            "no name of an entry",
		registrytest.NPM(strings.Repeat("a", 201)):                           "no name of an entry",
		registrytest.NPM(""):                                                 "no name of an entry",
		npmOf(`"--yes"`):                                                     "no name of a package",
		npmOf(`"../x"`):                                                      "no name of a package",
		npmOf(`"x@1"`):                                                       "no name of a package",
		npmOf(`"https://evil.example/x.tgz"`):                                "no name of a package",
		npmOf(`"github:evil/x"`):                                             "no name of a package",
		npmOf(`"a b; rm -rf"`):                                               "no name of a package",
		npmOf(`""`):                                                          "no name of a package",
		ociOf(`"-v"`):                                                        "no name of a package",
		ociOf(`"a/b:c d"`):                                                   "no name of a package",
		ociOf(`"a@sha256:1"`):                                                "no name of a package",
		based("127.0.0.1:7779/y", "https://ghcr.io"):                         `and its name says "127.0.0.1:7779"`,
		based("evil.io/x/y", "https://ghcr.io"):                              `and its name says "evil.io"`,
		based("localhost/y", "https://ghcr.io"):                              `and its name says "localhost"`,
		based("quay.io/x/y", "https://docker.io"):                            `and its name says "quay.io"`,
		based("docker.io/x/y", "https://quay.io"):                            `and its name says "docker.io"`,
		based("x/y", "https://quay.io"):                                      `its package is in "https://quay.io"`,
		pkg(`"version": "^1.2"`):                                             "no version",
		pkg(`"version": "latest"`):                                           "no version",
		pkg(`"version": "vNext"`):                                            "no version",
		pkg(`"version": "1 -y x"`):                                           "no version",
		pkg(`"registryBaseUrl": "https://evil.example"`):                     `its package is in "https://evil.example"`,
		pkg(`"registryType": "mcpb"`):                                        "ambiguous member",
		strings.Replace(npmOf(`"p"`), "npm", "mcpb", 1):                      `packages of type "mcpb" are not run`,
		strings.Replace(npmOf(`"p"`), "stdio", "telnet", 1):                  `transport "telnet" is none of`,
		pkg(`"environmentVariables": [{"name": "A=B", "isRequired": true}]`): "no name of a variable",
		pkg(`"environmentVariables": [{"name": "A"}, {"name": "A"}]`):        "variable A is there twice",
		pkg(`"environmentVariables": [{"name": "A", "value": "\u0000"}]`):    "has a NUL",
		pkg(`"packageArguments": [{"type": "x"}]`):                           "neither positional nor named",
		pkg(`"packageArguments": [{"type": "named", "name": "x"}]`):          `"x" is no flag`,
		pkg(`"packageArguments": [{"type": "named", "name": "--$(x)"}]`):     `"--$(x)" is no flag`,
		pkg(`"environmentVariables": [` + strings.TrimSuffix(strings.Repeat(`{"name": "A"},`, 300), ",") + `]`): "300 inputs of a kind",
		remote(`"http://a.example/sse"`):                                            "is not https",
		remote(`"https://127.0.0.1/sse"`):                                           "is not a public address",
		remote(`"https://[::1]/sse"`):                                               "is not a public address",
		remote(`"https://[::ffff:10.0.0.1]/sse"`):                                   "is not a public address",
		remote(`"https://169.254.169.254/"`):                                        "is not a public address",
		remote(`"https://localhost/sse"`):                                           "is this machine",
		remote(`"https://a.localhost./sse"`):                                        "is this machine",
		remote(`"https://0x7f.1/sse"`):                                              "is no name of a host",
		remote(`"https://u:p@a.example/sse"`):                                       "has a login in it",
		remote(`"file:///etc/passwd"`):                                              "is no URL",
		remote(`"npx://x"`):                                                         "is no URL",
		`{"name": "a", "remotes": [{"type": "stdio", "url": "https://a.example"}]}`: "does not speak stdio",
		`{"name": "a", "remotes": [{"type": "sse", "url": "https://a.example", "headers": [{"name": "A:B"}]}]}`:                                   "no name of a header",
		`{"name": "a", "remotes": [{"type": "sse", "url": "https://a.example", "headers": [{"name": "A$x"}]}]}`:                                   "no name of a header",
		`{"name": "a", "remotes": [{"type": "sse", "url": "https://{host}/", "variables": {"host": {"default": "169.254.169.254"}}}]}`:            "is not a public address",
		`{"name": "a", "remotes": [{"type": "sse", "url": "https://{host}/", "variables": {"host": {"choices": ["a.example", "10.0.0.1"]}}}]}`:    "is not a public address",
		`{"name": "a", "remotes": [{"type": "sse", "url": "https://{a}{b}/", "variables": {"a": {"default": "local"}, "b": {"value": "host"}}}]}`: "is this machine",
	} {
		sh := read(t, "["+text+","+registrytest.NPM("good")+"]", true)
		if len(sh.Entries) != 1 || sh.Refused.Count != 1 || !strings.Contains(sh.Refused.Reasons[0], want) {
			t.Errorf("%.200s: %d entries, refused %q; want %q", text, len(sh.Entries), sh.Refused.Reasons, want)
		}
	}
}

func TestRefusedOfToolhive(t *testing.T) {
	for text, want := range map[string]string{
		`{"servers": {"a": {"name": "b", "image": "x", "transport": "stdio"}}}`:                                                               `it calls itself "b"`,
		`{"servers": {"a": {"transport": "stdio"}}}`:                                                                                          "has to have an image or a url",
		`{"servers": {"a": {"image": "x", "transport": "stdio", "target_port": 99999}}}`:                                                      "is no port",
		`{"servers": {"a": {"image": "-v /:/x", "transport": "stdio"}}}`:                                                                      "that are blank",
		`{"servers": {"a": {"image": "npx://-y", "transport": "stdio"}}}`:                                                                     "is no package of npm",
		`{"servers": {"a": {"image": "x", "transport": "stdio", "permissions": "all"}}}`:                                                      "no permission profile",
		`{"remote_servers": {"a": {"url": "https://a.example", "transport": "sse", "oauth_config": {"issuer": "https://10.0.0.1"}}}}`:         "its oauth_config",
		`{"servers": {"a": {"image": "x", "transport": "stdio"}}, "remote_servers": {"A": {"url": "https://a.example", "transport": "sse"}}}`: "is there twice",
	} {
		if sh := read(t, text, true); sh.Refused.Count != 1 || !strings.Contains(sh.Refused.Reasons[0], want) {
			t.Errorf("%s: refused %q; want %q", text, sh.Refused.Reasons, want)
		}
	}
}

// A source of this machine may name servers of this machine.
func TestNear(t *testing.T) {
	text := `[{"name": "a", "remotes": [{"type": "sse", "url": "http://127.0.0.1:8080/sse"}]}]`
	if sh := read(t, text, false); len(sh.Entries) != 1 {
		t.Errorf("refused %q", sh.Refused.Reasons)
	}
	if sh := read(t, strings.Replace(text, "127.0.0.1", "10.0.0.1", 1), false); len(sh.Entries) != 0 {
		t.Error("http to another machine")
	}
}

// Versions that are not the latest, and deleted ones, are passed over.
func TestPassed(t *testing.T) {
	official := func(text string) string {
		return `{"server": ` + registrytest.NPM("io.example/a") + `, "_meta": {"io.modelcontextprotocol.registry/official": {` + text + `}}}`
	}
	sh := read(t, `{"servers": [`+official(`"isLatest": false`)+`,`+official(`"status": "deleted"`)+`,`+official(`"status": "deprecated", "isLatest": true`)+`]}`, true)
	if len(sh.Entries) != 1 || sh.Passed != 2 || sh.Refused.Count != 0 || sh.Entries[0].Status != "deprecated" {
		t.Errorf("%+v", sh)
	}
}

func TestMany(t *testing.T) {
	text := strings.Repeat(`{"name":"a"},`, maxReasons+10) + registrytest.NPM("b")
	if sh := read(t, "["+text+"]", true); sh.Refused.Count != maxReasons+10 || len(sh.Refused.Reasons) != maxReasons {
		t.Errorf("%d refused, %d told", sh.Refused.Count, len(sh.Refused.Reasons))
	}
	for n, fails := range map[int]bool{52366: false, 100000: true} { // the former are the MCP registry's of October 2026
		r := newReader("url https://a.example", true)
		r.Entries = make([]*Entry, n)
		if _, err := r.document([]byte(registrytest.NPM("b"))); errors.Is(err, fs.ErrTooLarge) != fails {
			t.Errorf("after %d: %v", n, err)
		}
	}
	if told := fmt.Sprintf(" %d entries in all", maxEntries); !strings.Contains(page(t), told) {
		t.Errorf("the page has not%s", told)
	}
}

func TestFileNames(t *testing.T) {
	for _, name := range []string{"a", "io.github.x/y", "a/b"} {
		if f := fs.FileName(name); NameOf(f) != name || fs.CheckName(f) != nil {
			t.Errorf("%s is %s", name, f)
		}
	}
}

// Whatever a registry says, its entries are ones that can be shown, named as files,
// and launched or refused.
func FuzzDocument(f *testing.F) {
	f.Add(string(builtinText))
	for _, name := range []string{"server", "toolhive", "remote", "packages"} {
		text, err := os.ReadFile("testdata/" + name + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := newReader("url https://a.example", true)
		if _, err := r.document([]byte(text)); err != nil {
			return
		}
		seen := map[string]bool{}
		for _, e := range r.Entries {
			file := fs.FileName(e.Name)
			if fs.CheckName(file) != nil || NameOf(file) != e.Name || seen[strings.ToLower(file)] {
				t.Errorf("%q is %q", e.Name, file)
			}
			seen[strings.ToLower(file)] = true
			line, err := fs.MarshalLine(e)
			if err != nil || strings.Contains(string(line), "\n") {
				t.Errorf("%q: %v", line, err)
			}
			if strings.HasPrefix(e.Run, "-") || strings.ContainsAny(e.Run, " \t\n\x00;$`") && !e.Remote() {
				t.Errorf("runs %q", e.Run)
			}
			if err := e.check(true); err != nil {
				t.Errorf("checked twice: %v", err)
			}
			if l, err := e.Launch(Given{}); err == nil {
				for _, a := range l.Args {
					if strings.ContainsRune(a.Text, 0) {
						t.Errorf("argument %q", a.Text)
					}
				}
			}
		}
	})
}
