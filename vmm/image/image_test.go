package image

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hutch/fs"
)

func TestHostHoldsProgramsAndNothingOfPeople(t *testing.T) {
	s := Open(filepath.Join(t.TempDir(), "images"))
	img, err := s.Lookup(Host)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"proc", "dev", "tmp", "workspace", "run/hutch", "opt/hutch/bin", "usr", "etc/passwd"} {
		if !exists(filepath.Join(img.Root, name)) {
			t.Errorf("the image has no %s", name)
		}
	}
	for _, name := range []string{"etc/shadow", "etc/gshadow", "etc/ssl/private", "etc/machine-id", "etc/ssh", "etc/npmrc"} {
		if exists(filepath.Join(img.Root, name)) {
			t.Errorf("the image has %s", name)
		}
	}
	for _, b := range img.Binds {
		top := strings.Split(b.Host, "/")[1]
		if !slices.Contains(viewed, top) {
			t.Errorf("the image shows %s", b.Host)
		}
	}
	for _, name := range []string{"home", "root", "var/log"} {
		if got, _ := os.ReadDir(filepath.Join(img.Root, name)); len(got) != 0 {
			t.Errorf("%s holds %v", name, got)
		}
	}
	if !strings.HasPrefix(img.Info(), "name host\nkind host\n") {
		t.Errorf("info %q", img.Info())
	}
}

// TestGuide looks for the guide in images of every kind, one of them from
// before there was any.
func TestGuide(t *testing.T) {
	s := Open(filepath.Join(t.TempDir(), "images"))
	defer s.Close()
	if err := os.MkdirAll(filepath.Join(s.path("laid"), "rootfs", "etc", "profile.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{Host, "laid", Host} {
		img, err := s.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for file, want := range map[string]string{
			"opt/hutch/README": "/opt/hutch/bin/hutch-relay", "opt/hutch/mcp.json": `"mcpServers"`, "etc/profile.d/hutch.sh": "/opt/hutch/bin",
		} {
			text, err := os.ReadFile(filepath.Join(img.Root, file))
			if err != nil || !strings.Contains(string(text), want) {
				t.Errorf("%s of image %s: %q, %v", file, name, text, err)
			}
			os.Remove(filepath.Join(img.Root, file))
		}
	}
}

func TestRefreshFollowsTheMachine(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "etc"), filepath.Join(dir, "copy")
	write := func(name, text string, mode os.FileMode, age time.Duration) {
		t.Helper()
		path := filepath.Join(from, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode),
			os.Chtimes(path, time.Time{}, time.Now().Add(-age))); err != nil {
			t.Fatal(err)
		}
	}
	write("a", "old", 0o644, time.Hour)
	write("secret", "s", 0o600, time.Hour)
	write("d/b", "b", 0o644, time.Hour)
	os.Symlink("a", filepath.Join(from, "link"))
	check := func(want map[string]string) {
		t.Helper()
		os.Chtimes(from, time.Time{}, time.Now())
		if err := refresh(from, to); err != nil {
			t.Fatal(err)
		}
		for name, text := range want {
			got, err := os.ReadFile(filepath.Join(to, name))
			if text == "" && err == nil || text != "" && string(got) != text {
				t.Errorf("%s is %q, %v; want %q", name, got, err, text)
			}
		}
	}
	check(map[string]string{"a": "old", "d/b": "b", "link": "old", "secret": ""})
	write("a", "new", 0o644, 0)
	os.RemoveAll(filepath.Join(from, "d"))
	check(map[string]string{"a": "new", "d/b": "", "link": "new"})
}

func TestLookup(t *testing.T) {
	dir := t.TempDir()
	s := Open(dir)
	os.MkdirAll(filepath.Join(dir, "debian", "rootfs"), 0o755)
	os.MkdirAll(filepath.Join(dir, "half"), 0o755)
	if names, err := s.List(); err != nil || !slices.Equal(names, []string{"debian", "host"}) {
		t.Errorf("images %v, %v", names, err)
	}
	if img, err := s.Lookup("debian"); err != nil || img.Root != filepath.Join(dir, "debian", "rootfs") || img.Kind != "folder" {
		t.Errorf("debian is %+v, %v", img, err)
	}
	for _, name := range []string{"foo", "half", "", ".", "..", "a/b", "../debian"} {
		if _, err := s.Lookup(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := s.Lookup("foo"); fs.Text(err) != `file does not exist: image "foo"` {
		t.Errorf("error is %q", fs.Text(err))
	}
}

// BenchmarkHost measures what each start pays for the image being up to date.
func BenchmarkHost(b *testing.B) {
	s := Open(b.TempDir())
	if _, err := s.Lookup(Host); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s.Lookup(Host)
	}
}

// TestImagesOfOne looks whether other users of the host may use what images
// bring, programs that are setuid among it; they might when there was a folder
// with another mode.
func TestImagesOfOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	for range 2 {
		if _, err := Open(dir).Lookup(Host); err != nil {
			t.Fatal(err)
		}
		if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", fi.Mode(), err)
		}
		os.Chmod(dir, 0o755)
	}
}
