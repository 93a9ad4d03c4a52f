package guest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hutch/relay/guest"
)

func TestCheckProgram(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	build := func(name, mode string) string {
		path := filepath.Join(dir, name)
		build := exec.Command("go", "build", "-buildmode="+mode, "-o", path, "hutch/cmd/guest")
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return path
	}
	for _, c := range []struct{ path, want string }{
		{build("static", "exe"), ""},
		{filepath.Join(dir, "none"), "no guest program at "},
		{text, "guest program " + text + ": "},
		{build("dynamic", "pie"), "is not static: build it with CGO_ENABLED=0"},
	} {
		err := guest.CheckProgram("guest", c.path)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.path, err, c.want)
		}
	}
}
