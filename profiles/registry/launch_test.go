package registry

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"hutch/fs"
)

func entry(t *testing.T, file, name string) *Entry {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file + ".json")
	if err != nil {
		t.Fatal(err)
	}
	list := read(t, string(text), true).Entries
	at := slices.IndexFunc(list, func(e *Entry) bool { return e.Name == name })
	if at < 0 {
		t.Fatalf("no entry %s", name)
	}
	return list[at]
}

func (l *Launch) text() string {
	var args []string
	for _, a := range l.Args {
		args = append(args, a.Text)
	}
	return fmt.Sprintf("%s %s %v %v %v %v", l.Run, l.URL, args, l.Env, l.Headers, l.Paths)
}

func TestLaunch(t *testing.T) {
	type m = map[string]string
	for _, test := range []struct {
		file, name string
		given      Given
		want       string
	}{
		{"server", "io.example/forge", Given{Values: m{"FORGE_HOST": "h"}, Secrets: m{"FORGE_TOKEN": "secret:forge"}},
			"ghcr.io/example/forge-mcp:v1.4.0 http://localhost:8080/mcp [serve --port 8080 --mode ro] map[FORGE_DEBUG:{false false} FORGE_HOST:{h false} FORGE_TOKEN:{secret:forge true}] map[] []"},
		{"server", "io.example/forge", Given{Values: m{"FORGE_HOST": "h", "FORGE_TOKEN": "plain", "--port": "9", "--mode": "rw", "arg4": "/a", "OTHER": "x"}, Args: []string{"more"}},
			"ghcr.io/example/forge-mcp:v1.4.0 http://localhost:9/mcp [serve --port 9 --mode rw /a more] map[FORGE_DEBUG:{false false} FORGE_HOST:{h false} FORGE_TOKEN:{plain true} OTHER:{x false}] map[] [/a]"},
		{"server", "io.example/forge", Given{}, "! server io.example/forge needs FORGE_HOST: host of the forge; FORGE_TOKEN (secret): of the forge"},
		{"server", "io.example/forge", Given{Values: m{"FORGE_HOST": "h", "FORGE_TOKEN": "x", "--mode": "all"}}, "! --mode is one of ro rw, not \"all\""},
		{"server", "io.example/forge", Given{Values: m{"FORGE_HOST": "h", "FORGE_TOKEN": "x", "--port": "http"}}, "! --port is a number, not \"http\""},
		{"server", "io.example/forge", Given{Values: m{"FORGE_HOST": "h", "FORGE_TOKEN": "x", "FORGE_DEBUG": "1"}}, "! FORGE_DEBUG is true or false, not \"1\""},
		{"server", "io.example/forge", Given{Values: m{"FORGE_HOST": "h", "FORGE_TOKEN": "x", "--nosuch": "1"}}, "! \"--nosuch\" is no name of an input"},
		{"server", "io.example/forge", Given{Values: m{"FORGE_HOST": "a\x00b", "FORGE_TOKEN": "x"}}, "! the value of FORGE_HOST has a NUL"},
		{"toolhive", "fetch", Given{}, "ghcr.io/example/fetch@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef http://127.0.0.1:8080/mcp [--verbose] map[USER_AGENT:{fetch false}] map[] []"},
		{"toolhive", "fetch", Given{Args: []string{"--quiet"}, Values: m{"USER_AGENT": "me"}}, "ghcr.io/example/fetch@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef http://127.0.0.1:8080/mcp [--quiet] map[USER_AGENT:{me false}] map[] []"},
		{"toolhive", "desk", Given{Secrets: m{"X-Key": "secret:desk"}}, "https://desk.example/sse  [] map[] map[X-Key:{secret:desk true}] []"},
		{"toolhive", "desk", Given{}, "! server desk needs X-Key (secret): from the desk"},
		{"remote", "com.example/remote", Given{Values: m{"tenant": "t"}, Secrets: m{"key": "k"}}, "https://t.example.com/mcp  [] map[] map[Authorization:{Bearer k true}] []"},
		{"remote", "com.example/remote", Given{Values: m{"X-Region": "us"}}, "! server com.example/remote needs tenant: your name there; key (secret)"},
		{"remote", "com.example/remote", Given{Values: m{"tenant": "u:p@evil.example/#", "key": "k"}}, "! is no URL"},
		{"remote", "com.example/remote", Given{Values: m{"tenant": "evil.example/", "key": "k"}}, "! one of another host"},
		{"remote", "com.example/remote", Given{Values: m{"tenant": "t", "key": "k", "Authorization": "x"}}, "! Authorization is set by the registry"},
		{"packages", "a/bearer", Given{}, "! server a/bearer needs token (secret)"},
		{"packages", "a/bearer", Given{Secrets: m{"token": "k"}}, "https://a.example/sse  [] map[] map[Authorization:{Bearer k true}] []"},
		{"packages", "a/bearer", Given{Secrets: m{"token": "k"}, Values: m{"team": "t"}}, "https://a.example/sse  [] map[] map[Authorization:{Bearer k true} X-Team:{team t false}] []"},
		{"packages", "a/words", Given{}, "uvx://p  [mcp --context ide more] map[] map[] []"},
		{"packages", "a/optional", Given{}, "! server a/optional needs host: of yours"},
		{"packages", "a/optional", Given{Values: m{"host": "a.example"}}, "https://a.example/  [] map[] map[] []"},
		{"packages", "a/fixed", Given{}, "npx://p  [mcp] map[] map[] []"},
		{"packages", "a/own", Given{}, "npx://p  [--mode=rw] map[] map[] []"},
		{"packages", "a/twice", Given{}, "a/b:1  [] map[SITE:{here false}] map[] []"},
		{"packages", "a/ports", Given{Values: m{"host": "a.example"}}, "https://a.example:8443/sse  [] map[] map[] []"},
		{"packages", "a/ports", Given{Values: m{"host": "a.example", "port": "1@b.example"}}, "! is no URL"},
		{"packages", "a/named", Given{}, "uvx://p  [] map[] map[] []"},
		{"packages", "a/untold", Given{}, "! server a/untold needs host"},
		{"packages", "a/untold", Given{Values: m{"host": "b.example"}}, "https://b.example/sse  [] map[] map[] []"},
		{"packages", "a/port", Given{}, "npx://p http://localhost:3000/mcp [--port 3000] map[] map[] []"},
		{"packages", "a/port", Given{Values: m{"--port": "9"}}, "npx://p http://localhost:9/mcp [--port 9] map[] map[] []"},
		{"packages", "a/inputs", Given{Values: m{"SITE": "x"}}, "npx://p  [] map[SITE:{x false}] map[] []"},
	} {
		l, err := entry(t, test.file, test.name).Launch(test.given)
		got := ""
		switch want, fails := strings.CutPrefix(test.want, "! "); {
		case fails && (err == nil || !errors.Is(err, fs.ErrInvalid) || !strings.Contains(err.Error(), want)):
			t.Errorf("%s with %v: %v, want %s", test.name, test.given, err, want)
		case fails:
		case err != nil:
			t.Errorf("%s with %v: %v", test.name, test.given, err)
		default:
			if got = l.text(); got != test.want {
				t.Errorf("%s with %v:\n%s\nwant\n%s", test.name, test.given, got, test.want)
			}
		}
	}
}

// No secret is in an error.
func TestLaunchKeepsSecrets(t *testing.T) {
	e := &Entry{Name: "a", Env: []Input{{Name: "KEY", Secret: true, Choices: []string{"a", "b"}}}}
	remote := &Entry{Name: "a", Run: "https://a.example/{KEY}", Variables: e.Env}
	remote.Variables[0].Required = true
	for _, values := range []map[string]string{nil, {"KEY": "a"}} {
		if _, err := remote.Launch(Given{Values: values}); !errors.Is(err, fs.ErrInvalid) || !strings.Contains(err.Error(), "a secret in it") {
			t.Errorf("a secret in a URL: %v", err)
		}
	}
	for _, g := range []Given{{Values: map[string]string{"KEY": "hidden"}}, {Secrets: map[string]string{"KEY": "hidden\x00", "--x": "hidden"}}} {
		if _, err := e.Launch(g); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Error(err)
		}
	}
}
