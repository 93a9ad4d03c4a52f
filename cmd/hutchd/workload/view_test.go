package workload

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"hutch/profiles"
)

// TestView asks what a sandbox does not show of a host that has programs in odd
// places.
func TestView(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"own/x", "npm/node_modules/@a/b/index.js", "node/bin/node", "node/lib/npm/cli.js", "in/x"} {
		os.MkdirAll(filepath.Dir(at(name)), 0o755)
		if err := os.WriteFile(at(name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"node/bin/npm": "../lib/npm/cli.js", "in/link": "../own/x", "in/sh": "/bin/sh"} {
		if err := os.Symlink(to, at(name)); err != nil {
			t.Fatal(err)
		}
	}
	in := view{{Host: at("in"), Guest: at("in"), ReadOnly: true}, {Host: at("own"), Guest: "/opt/own"}, {Host: at("own"), Guest: "/usr/lib"}}
	for _, tt := range []struct {
		view view
		file string
		want []string
	}{
		{nil, "/bin/sh", nil},
		{nil, "/no/such/file", nil},
		{nil, at("own/x"), []string{at("own")}},
		{nil, at("own"), []string{at("own")}},
		{nil, at("npm/node_modules/@a/b/index.js"), []string{at("npm")}},
		{nil, at("node/bin/npm"), []string{at("node")}},
		{nil, at("in/sh"), []string{at("in")}},
		{in, at("in/x"), nil},
		{in, at("in/sh"), nil},
		{in, at("in/link"), []string{at("own")}},
		{in, at("own/x"), []string{at("own")}},
		{view{profiles.Mount{Host: at("node"), Guest: at("node")}}, at("node/bin/npm"), nil},
	} {
		if got := tt.view.lacks(tt.file); !slices.Equal(got, tt.want) {
			t.Errorf("%v lacks of %s %q, want %q", tt.view, tt.file, got, tt.want)
		}
	}
	if !in.has("/usr/bin/sh") || in.has("/usr/lib/x") {
		t.Error("a mount does not hide what is below it")
	}
}
