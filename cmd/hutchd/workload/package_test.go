package workload

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"hutch/fs"
	"hutch/profiles"
	"hutch/profiles/permission"
	"hutch/profiles/runconfig"
)

// TestPackages has sources be what is installed, run, and looked for anew.
func TestPackages(t *testing.T) {
	t.Setenv("npm_config_registry", "http://mirror.example:8080/npm/")
	t.Setenv("UV_DEFAULT_INDEX", "https://user:word@[fd00::1]/simple")
	t.Setenv("GOPROXY", "off,https://second.example")
	for _, tt := range []struct {
		source, what, program string
		moves                 bool
		host                  string
	}{
		{"npx://x", "x@latest", "/workspace/.hutch/npx/server/x", true, "mirror.example:8080"},
		{"npx://@a/b@1.2.3", "@a/b@1.2.3", "/workspace/.hutch/npx/server/b", false, "mirror.example:8080"},
		{"npx://@a/b@1.2.3-rc.1", "@a/b@1.2.3-rc.1", "/workspace/.hutch/npx/server/b", false, "mirror.example:8080"},
		{"npx://b@^1.2.3", "b@^1.2.3", "/workspace/.hutch/npx/server/b", true, "mirror.example:8080"},
		{"npx://b@next", "b@next", "/workspace/.hutch/npx/server/b", true, "mirror.example:8080"},
		{"uvx://tool[cli]==1.2", "tool[cli]==1.2", "/workspace/.hutch/uvx/bin/tool", false, "[fd00::1]:443"},
		{"uvx://tool@latest", "tool", "/workspace/.hutch/uvx/bin/tool", true, "[fd00::1]:443"},
		{"go://h.example/a/cmd/b@v1.2.3", "h.example/a/cmd/b@v1.2.3", "/workspace/.hutch/go/bin/b", false, "proxy.golang.org:443"},
		{"go://h.example/a/v2", "h.example/a/v2@latest", "/workspace/.hutch/go/bin/a", true, "proxy.golang.org:443"},
	} {
		source, err := runconfig.ParseSource(tt.source)
		if err != nil {
			t.Fatal(err)
		}
		p, ok := packOf(source)
		if !ok || p.what != tt.what || p.program != tt.program || p.moves != tt.moves || p.hosts[0] != tt.host {
			t.Errorf("%s is %+v", tt.source, p)
		}
	}
	if n := (&pack{hosts: []string{"[fd00::1]:443", "a.example:80"}}).network(); !slices.Equal(n.Private, []string{"fd00::1", "a.example"}) {
		t.Errorf("private are %q", n.Private)
	}
}

// TestAsksProxy tells the versions of Node that ask the proxy.
func TestAsksProxy(t *testing.T) {
	for version, want := range map[string]bool{
		"v20.20.2": false, "v22.20.0": false, "v22.21.0": true, "v23.11.1": false, "v24.0.0": true, "v26.1.0": true, "": true, "v20": true, "v20.1.0\nx": true,
	} {
		if asksProxy(version) != want {
			t.Errorf("%q: %v", version, !want)
		}
	}
}

// TestWithNode has a Node that asks no proxy be told of where a name was not found.
func TestWithNode(t *testing.T) {
	for _, tt := range []struct {
		version, text string
		told          bool
	}{
		{"v20.20.2", "the server died (exit status 1): Error: getaddrinfo EAI_AGAIN a.example", true},
		{"v20.20.2", "the server died (exit status 1): getaddrinfo ENOTFOUND a.example", true},
		{"v20.20.2", "the server died (exit status 1): no argument", false},
		{"v24.0.0", "the server died (exit status 1): Error: getaddrinfo EAI_AGAIN a.example", false},
		{"", "getaddrinfo EAI_AGAIN a.example", false},
	} {
		if text := withNode(tt.version, errors.New(tt.text)).Error(); strings.Contains(text, "install node") != tt.told || !strings.HasPrefix(text, tt.text) {
			t.Errorf("%s: %s", tt.version, text)
		}
	}
}

// TestPrivate has a server reach what is not public where its hosts' profile says so.
func TestPrivate(t *testing.T) {
	s := &runconfig.Server{Source: runconfig.Source{Kind: runconfig.NPX, Name: "x"}, Transport: runconfig.Stdio}
	p := new(profiles.Profile)
	p.Network.Private = []string{"10.1.0.0/16"}
	d, err := definition(s, permission.TermsOf(p))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := profiles.ParseBox(d.Sandbox); err != nil || !slices.Equal(b.Network.Private, p.Network.Private) {
		t.Errorf("its sandbox is %s, %v", d.Sandbox, err)
	}
}

// TestPrivileged has a server that asks to be privileged be refused, and be no more
// than others where corp allows it to ask.
func TestPrivileged(t *testing.T) {
	s := &runconfig.Server{Source: runconfig.Source{Kind: runconfig.NPX, Name: "x"}, Transport: runconfig.Stdio, Profile: &permission.Profile{Privileged: true}}
	if _, err := definition(s, permission.Terms{}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("without corp: %v", err)
	}
	asks, err := definition(s, permission.Terms{Privileged: true})
	s.Profile = &permission.Profile{}
	asksNot, err2 := definition(s, permission.Terms{})
	if err != nil || err2 != nil || asks.Sandbox != asksNot.Sandbox {
		t.Errorf("with corp %s, %v; not asking %s, %v", asks.Sandbox, err, asksNot.Sandbox, err2)
	}
}
