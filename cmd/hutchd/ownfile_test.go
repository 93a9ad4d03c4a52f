//go:build linux

package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOwnFiles has configs, a profile, the registry and an image name files of the
// service's own, of which none is given out.
func TestOwnFiles(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	if out, err := s.pipe("hidden-value", "secret", "set", "kept"); err != nil {
		t.Fatal(out)
	}
	key := filepath.Join(s.state(), "secrets", "key")
	link := filepath.Join(s.dir, "link")
	if err := os.Symlink(key, link); err != nil {
		t.Fatal(err)
	}
	config := func(text string) string {
		file := filepath.Join(s.dir, "own.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	const why = "no guest may have the state of hutchd"
	for _, path := range []string{key, link} {
		s.refused(why, "server", "import", config(`{"image":"npx://x","env_vars":{"E":"file:`+path+`"}}`))
		s.refused(why, "server", "import", config(`{"image":"npx://x","secrets":["file:`+path+`,target=T"]}`))
		s.refused(why, "import", path, "own")
	}
	os.WriteFile(filepath.Join(s.state(), "profiles", "own.toml"), []byte("[mcpServers.x]\nurl = \"https://example.com/mcp\"\nbearer_token = \"file:"+link+"\"\n"), 0o600)
	s.refused(why, "create", "-profile", "own", "dev")
	s.refused(why, "server", "-bearer", "file:"+link, "run", "https://example.com/mcp")
	if out, err := s.pipe("source file "+key+"\n", "9p", "write", "registry/ctl"); err == nil || !strings.Contains(out, why) {
		t.Errorf("the registry takes it: %v: %s", err, out)
	}
}

// pipe runs the hutch command with a standard input.
func (s *service) pipe(in string, args ...string) (string, error) {
	cmd := s.command("hutch", args...)
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
