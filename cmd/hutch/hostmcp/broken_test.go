package hostmcp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOneBroken has a profile that does not parse cost calls about others nothing.
func TestOneBroken(t *testing.T) {
	s := newSite(t)
	file := filepath.Join(filepath.Dir(strings.TrimPrefix(s.addr, "unix!")), "state/profiles/broken.toml")
	if err := os.WriteFile(file, []byte("ram = \"lots\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := s.connect()
	for _, u := range []struct {
		tool string
		args args
	}{{"mcp_add", args{"id": "web", "url": "http://127.0.0.1:1/"}}, {"mcp_delete", args{"id": "web"}}} {
		if got := plain(t, c.call(u.tool, u.args)); !strings.Contains(got, `"id":"web"`) {
			t.Errorf("%s: %s", u.tool, got)
		}
	}
	c.fails("mcp_add", args{"id": "web", "url": "http://127.0.0.1:1/", "profile": "broken"}, "invalid argument: profile broken, line 1")
}
