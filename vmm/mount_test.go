package vmm

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hutch/profiles"
	"hutch/vmm/image"
)

// TestPlaced has mounts in what the guest sees for reading only, where there is
// a folder for them or not.
func TestPlaced(t *testing.T) {
	host := t.TempDir()
	if err := os.MkdirAll(filepath.Join(host, "local/there"), 0o755); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(host, "file"), nil, 0o644)
	img := image.Image{Root: t.TempDir(), Binds: []image.Bind{{Host: host, Guest: "/usr"}}}
	if err := os.Symlink("usr/bin", filepath.Join(img.Root, "bin")); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"/a:/mnt/x /a:/usr2/x":  "",
		"/a:/usr":               "/usr: the guest sees " + host,
		"/a:/bin":               "/bin: /bin is a link to /usr/bin",
		"/a:/bin/there":         "/bin/there: /bin is a link to /usr/bin",
		"/a:/usr/local/there":   "",
		"/a:/usr/local/nothing": "/usr/local/nothing: no such folder in /usr",
		"/a:/usr/file":          "/usr/file: no such folder in /usr",
		"/a:/usr/local/there /a:/usr/local/there/x": "", // it can be made there
		host + ":/data:ro /a:/data/x":               "/data/x: no such folder in /data",
		host + ":/data:ro /a:/data/local":           "",
		host + ":/data /a:/data/x":                  "",
	} {
		list, err := profiles.Mounts(text).List()
		if err != nil {
			t.Fatal(err)
		}
		err = placed(list, img)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), "mount at "+want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestWay follows links to where names are looked up.
func TestWay(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a/b", "c"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"l": "a/b", "c/up": "../l", "c/abs": filepath.Join(dir, "l"), "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ path, want string }{
		{"a/b", "/ /a"},
		{"a//./b/", "/ /a"},
		{"l", "/ / /a"},
		{"l/x", "/ / /a /a/b"},
		{"c/up", "/ /c / / /a"},
		{"c/../a", "/ /"},
		{"loop", "too many levels of symbolic links"},
	} {
		folders, err := way(filepath.Dir(dir) + "/" + filepath.Base(dir) + "/" + c.path)
		var list []string
		for _, f := range folders {
			if rest, ok := strings.CutPrefix(f, dir); ok {
				list = append(list, cmp.Or(rest, "/"))
			}
		}
		got := strings.Join(list, " ")
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.path, got, c.want)
		}
	}
	if folders, _ := way(filepath.Join(dir, "c/abs")); !slices.Contains(folders, filepath.Join(dir, "a")) {
		t.Errorf("an absolute link leads through %s", folders)
	}
}
