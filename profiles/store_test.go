package profiles

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"hutch/fs"
)

func write(t *testing.T, s *Store, file, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.Dir(), file), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, s *Store, name string) *Profile {
	t.Helper()
	p, err := s.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "profiles")
	s, err := Open(Folders{Profiles: dir, Good: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "default.toml")); err != nil || string(text) != string(builtin) {
		t.Errorf("default.toml: %v", err)
	}
	if p := get(t, s, ""); p.Name != Default || p.Image != "host" || s.Err() != "" {
		t.Errorf("the default: %+v, %q", p, s.Err())
	}

	write(t, s, "dev.toml", `image = "one"`)
	for _, junk := range []string{"dev.toml~", ".dev.toml.swp", "4913", ".x.toml", "README", "a b.toml", ".toml"} {
		write(t, s, junk, "not = [toml")
	}
	if names := s.Names(); !slices.Equal(names, []string{"default", "dev"}) {
		t.Errorf("names: %q", names)
	}
	if s.Err() != "" {
		t.Errorf("err: %q", s.Err())
	}
	if p := get(t, s, "dev"); p.Image != "one" {
		t.Errorf("%+v", p)
	}

	// A change of as many bytes in the same instant is seen.
	write(t, s, "dev.toml", `image = "two"`)
	if p := get(t, s, "dev"); p.Image != "two" {
		t.Errorf("after a change: %+v", p)
	}
	write(t, s, "dev.toml", "image = \"two\"\nimge = 1")
	if p := get(t, s, "dev"); p.Image != "two" {
		t.Errorf("after a bad change: %+v", p)
	}
	write(t, s, "bad.toml", "x")
	if _, err := s.Get("bad"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a profile that never parsed: %v", err)
	}
	lines := strings.Split(s.Err(), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "invalid argument: profile bad, line 1: ") ||
		lines[1] != `invalid argument: profile dev, line 2: unknown key "imge": did you mean "image"?` {
		t.Errorf("err: %q", lines)
	}

	// An editor renames a new file over the old one.
	write(t, s, "dev.toml.tmp", `image = "six"`)
	if err := os.Rename(filepath.Join(dir, "dev.toml.tmp"), filepath.Join(dir, "dev.toml")); err != nil {
		t.Fatal(err)
	}
	if p := get(t, s, "dev"); p.Image != "six" {
		t.Errorf("after a rename: %+v", p)
	}
	os.Remove(filepath.Join(dir, "bad.toml"))
	os.Remove(filepath.Join(dir, "dev.toml"))
	if s.Err() != "" {
		t.Errorf("err: %q", s.Err())
	}
	for _, name := range []string{"dev", "bad", "none"} {
		if _, err := s.Get(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is gone: %v", name, err)
		}
	}
	for _, name := range []string{"../x", ".", "a/b", "a\x00"} {
		if _, err := s.Get(name); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestStoreDefault(t *testing.T) {
	s, err := Open(Folders{Profiles: t.TempDir(), Good: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(s.path(Default))
	if p := get(t, s, Default); p.Image != "host" {
		t.Errorf("without its file: %+v", p)
	}
	write(t, s, "default.toml", "image = ")
	if p := get(t, s, Default); p.Image != "host" || s.Err() == "" {
		t.Errorf("with a bad one: %+v, %q", p, s.Err())
	}
	// Opened again, the folder keeps what is in it.
	if s, err = Open(Folders{Profiles: s.Dir(), Good: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(s.path(Default)); string(text) != "image = " {
		t.Errorf("default.toml was overwritten: %q", text)
	}
}

// TestStoreRestarted has a new process know what a file meant that does not
// parse, until that is gone.
func TestStoreRestarted(t *testing.T) {
	dir, good := t.TempDir(), t.TempDir()
	open := func() *Store {
		t.Helper()
		s, err := Open(Folders{Profiles: dir, Good: good})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	write(t, s, "dev.toml", `disk = "1GiB"`)
	if p := get(t, s, "dev"); p.Disk != 1<<30 || s.Check("dev") != nil {
		t.Errorf("%+v, %v", p, s.Check("dev"))
	}
	write(t, s, "dev.toml", `disk = "lots"`)
	for range 2 {
		if p := get(t, s, "dev"); p.Disk != 1<<30 {
			t.Errorf("a bad file means %+v", p)
		}
		if err := s.Check("dev"); !strings.HasPrefix(fs.Text(err), "invalid argument: profile dev, line 1") {
			t.Errorf("it is refused for %v", err)
		}
		s = open()
	}
	os.Remove(s.path("dev"))
	if _, err := s.Get("dev"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without its file: %v", err)
	}
	write(t, s, "dev.toml", `disk = "lots"`)
	if _, err := open().Get("dev"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("what was removed has come back: %v", err)
	}
}

// Files that are not ordinary are neither read nor waited for.
func TestStoreStrange(t *testing.T) {
	s, err := Open(Folders{Profiles: t.TempDir(), Good: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	os.WriteFile(secret, []byte("password"), 0o600)
	if err := errors.Join(os.Symlink(secret, s.path("link")), syscall.Mkfifo(s.path("pipe"), 0o600), os.Mkdir(s.path("dir"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "pipe", "dir"} {
		if _, err := s.Get(name); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if strings.Count(s.Err(), "\n") != 3 || strings.Contains(s.Err(), "password") {
		t.Errorf("err: %s", s.Err())
	}
}

func TestStoreConcurrent(t *testing.T) {
	s, err := Open(Folders{Profiles: t.TempDir(), Good: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 50 {
				tmp, err := os.CreateTemp(s.Dir(), "tmp")
				if err != nil {
					t.Error(err)
					return
				}
				tmp.WriteString([]string{`image = "a"`, `image = "b"`, "bad"}[i%3])
				tmp.Close()
				os.Rename(tmp.Name(), s.path(Default))
				if p, err := s.Get(Default); err != nil || p.Image == "" {
					t.Errorf("%+v, %v", p, err)
				}
				s.Err()
				s.Names()
			}
		})
	}
	wg.Wait()
}
