//go:build linux

package gvisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFindPlaces follows the links of a guest, through folders of the host.
func TestFindPlaces(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"root/srv", "usr/lib", "data"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"root/bin": "usr/lib", "root/srv/up": "../../../usr", "root/srv/loop": "/srv/loop",
		"usr/lib/out": "/srv", "data/in": "../usr",
	} {
		if err := os.Symlink(text, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	p := places{{"/", dir + "/root", false}, {"/usr", dir + "/usr", true}, {"/usr/data", dir + "/data", false}}
	const no = "no folder "
	for name, want := range map[string]string{
		"/usr": "/usr", "/usr/lib/": "/usr/lib", "/mnt/x/../y": "/mnt/y",
		"/bin": "/usr/lib", "/bin/x": no + "/usr/lib/x:", "/usr/x/y": no + "/usr/x:",
		"/srv/up": "/usr", "/srv/up/x": no + "/usr/x:", "/srv/loop": "too many links",
		"/bin/out/x": "/srv/x", "/usr/data/x/y": "/usr/data/x/y", "/usr/data/in/x": no + "/usr/usr:",
		"/usrx/y": "/usrx/y",
	} {
		got, err := p.find("/", name, maxLinks)
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.HasPrefix(got, want)) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
