package fuse

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hutch/fs/need"
)

// linking starts a server with a folder in which a guest writes links.
func linking(t *testing.T, links string) *served {
	t.Helper()
	need.FUSE(t)
	if links == "raw" {
		need.Root(t)
	}
	s := folders(t)
	s.links = links
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// guest has the guest make files: a name that ends in a slash is a folder,
// "name -> text" a link, "name = other" a hard link.
func (s *served) guest(files ...string) {
	s.t.Helper()
	for _, f := range files {
		var err error
		if name, text, ok := strings.Cut(f, " -> "); ok {
			err = os.Symlink(text, filepath.Join(s.work, name))
		} else if name, other, ok := strings.Cut(f, " = "); ok {
			err = unix.Linkat(unix.AT_FDCWD, filepath.Join(s.work, other), unix.AT_FDCWD, filepath.Join(s.work, name), 0)
		} else if strings.HasSuffix(f, "/") {
			err = os.MkdirAll(filepath.Join(s.work, f), 0o777)
		} else {
			err = os.WriteFile(filepath.Join(s.work, f), []byte(f+"\n"), 0o666)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// secret makes a file of the host beside the folder that is served, and
// returns the way to it from the host's root.
func (s *served) secret() string {
	s.t.Helper()
	name := filepath.Join(filepath.Dir(s.work), "secret")
	if err := os.WriteFile(name, []byte("secret\n"), 0o666); err != nil {
		s.t.Fatal(err)
	}
	return name
}

// What a guest's link leads to is the guest's, whatever tool follows it.
func TestLinks(t *testing.T) {
	s := linking(t, "guest")
	secret := s.secret()
	up := strings.Repeat("../", 40)
	s.guest("a/b/c/", "f", "a/f", "abs -> "+secret, "rel -> "+up+secret[1:], "a/b/rel -> "+up+secret[1:],
		"one -> two", "two -> a/three", "a/three -> "+secret, "d -> /", "a/b/turn -> c/../../../"+up+secret[1:],
		"in -> /workspace/a/f", "a/b/c/in -> ../../f", "a/b/c/up -> ../../..", "store -> /f", "sneak -> a/b/c/up/.."+secret)
	store := s.path("store")
	for _, c := range []struct{ name, text string }{
		{"abs", store + secret}, {"rel", store + secret}, {"a/b/rel", store + secret}, {"a/three", store + secret},
		{"one", "two"}, {"d", store}, {"in", s.path("work/a/f")}, {"a/b/c/in", "../../f"}, {"a/b/c/up", "../../.."},
		{"sneak", s.path("work/a/b/c") + secret},
	} {
		text, err := os.Readlink(s.path("work/" + c.name))
		if err != nil || text != c.text {
			t.Errorf("%s is %q, %v; want %q", c.name, text, err, c.text)
		}
		if fi, err := os.Lstat(s.path("work/" + c.name)); err != nil || fi.Size() != int64(len(text)) {
			t.Errorf("%s: %v, %v", c.name, fi, err)
		}
	}
	for _, name := range []string{"abs", "rel", "a/b/rel", "one", "d" + secret, "a/b/turn", "sneak"} {
		name := s.path("work/" + name)
		if text, err := os.ReadFile(name); err == nil {
			t.Errorf("%s is read as %q", name, text)
		}
		if f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666); err == nil {
			t.Errorf("%s is opened to be written", name)
			f.Close()
		}
	}
	for _, name := range []string{"in", "a/b/c/in", "a/b/c/up/a/f"} {
		if text, err := os.ReadFile(s.path("work/" + name)); string(text) != "a/f\n" {
			t.Errorf("%s is read as %q, %v", name, text, err)
		}
	}
	if text, err := os.ReadFile(secret); string(text) != "secret\n" {
		t.Errorf("the host's file is %q, %v", text, err)
	}
}

// A link to what has no name here, since it would be too long, leads to nothing.
func TestLinksTooLong(t *testing.T) {
	s := linking(t, "guest")
	s.guest("long -> /" + strings.Repeat("x/", 2040))
	if text, err := os.Readlink(s.path("work/long")); text != s.path(nowhere) {
		t.Errorf("it is %q, %v", text, err)
	}
	if _, err := os.Stat(s.path("work/long")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it leads to something: %v", err)
	}
	if f, err := os.Create(s.path("work/long")); err == nil {
		t.Error("it is made")
		f.Close()
	}
}

// The kernel has no directory and no link of the guest's at two places: it
// would go up from the one by the text for the other.
func TestLinksKeepTheirPlace(t *testing.T) {
	s := linking(t, "guest")
	s.guest("a/b/c/d/", "a/b/c/L -> ../../../f", "f", "L = a/b/c/L")
	if text, _ := os.Readlink(s.path("work/a/b/c/L")); text != "../../../f" {
		t.Errorf("the link is %q", text)
	}
	if text, _ := os.Readlink(s.path("work/L")); text != s.path("store/f") {
		t.Errorf("the same link in work itself is %q", text)
	}
	if text, _ := os.Readlink(s.path("work/a/b/c/L")); text != "../../../f" {
		t.Errorf("the link is then %q", text)
	}
	dir, err := os.Open(s.path("work/a/b/c/d"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	where := func() string {
		name, _ := os.Readlink(procPath(int(dir.Fd())))
		return strings.TrimPrefix(name, s.path("work"))
	}
	os.Rename(filepath.Join(s.work, "a/b/c/d"), filepath.Join(s.work, "d"))
	if _, err := os.Stat(s.path("work/d")); err != nil {
		t.Fatal(err)
	}
	if at := where(); !strings.HasPrefix(at, "/a/b/c/d") {
		t.Errorf("a directory that the guest moved up is at %q", at)
	}
	// What a client moves goes where the client says, and stays known there
	// also when the guest moves it back.
	if err := os.Rename(s.path("work/d"), s.path("work/a/b/c/e")); err != nil {
		t.Fatal(err)
	}
	e, err := os.Open(s.path("work/a/b/c/e"))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	dir = e
	os.Rename(filepath.Join(s.work, "a/b/c/e"), filepath.Join(s.work, "d"))
	if _, err := os.Stat(s.path("work/d")); err != nil {
		t.Fatal(err)
	}
	if at := where(); !strings.HasPrefix(at, "/a/b/c/e") {
		t.Errorf("a directory that was moved, and that the guest moved back, is at %q", at)
	}
}

// A link that a client makes has the text that was asked for; the copy of a
// guest's has the guest's.
func TestLinksMade(t *testing.T) {
	s := linking(t, "guest")
	s.guest("sub/", "f", "guest -> /etc/passwd", "inner -> /workspace/f")
	for name, text := range map[string]string{"abs": "/etc/passwd", "rel": "sub/../f", "out": "../../x"} {
		if err := os.Symlink(text, s.path("work/"+name)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.Readlink(filepath.Join(s.work, name)); got != text {
			t.Errorf("%s was made to be %q, and is %q, %v", name, text, got, err)
		}
	}
	if out, err := s.sh("dash", "cd work && cp -a guest inner sub && tar cf - guest inner | (mkdir t && cd t && tar xf -)"); err != nil {
		t.Fatal(out)
	}
	for _, dir := range []string{"sub", "t"} {
		for name, text := range map[string]string{"guest": "/etc/passwd", "inner": "/workspace/f"} {
			if got, err := os.Readlink(filepath.Join(s.work, dir, name)); got != text {
				t.Errorf("the copy %s/%s is %q, %v", dir, name, got, err)
			}
		}
	}
}

// A mount with raw links shows the guest's own text, and follows none.
func TestLinksRaw(t *testing.T) {
	s := linking(t, "raw")
	secret := s.secret()
	s.guest("f", "abs -> "+secret, "rel -> ../../x", "in -> f")
	for name, want := range map[string]string{"abs": secret, "rel": "../../x", "in": "f"} {
		if text, err := os.Readlink(s.path("work/" + name)); text != want {
			t.Errorf("%s is %q, %v", name, text, err)
		}
		if _, err := os.ReadFile(s.path("work/" + name)); !errors.Is(err, unix.ELOOP) {
			t.Errorf("%s is followed: %v", name, err)
		}
	}
	out, err := s.sh("dash", "tar cf - work | tar tvf - | sed -n 's/.* -> //p' | sort")
	if want := "../../x\n" + secret + "\nf\n"; err != nil || out != want {
		t.Errorf("tar carries %q, %v; want %q", out, err, want)
	}
}
