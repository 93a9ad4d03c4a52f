package replica_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hutch/vmm/replica"
)

// keep makes a replica of dir beside it, whose record tells of dir, and returns
// its path.
func keep(t testing.TB, dir, name string) string {
	t.Helper()
	to := filepath.Join(filepath.Dir(dir), name)
	r := replica.New(dir, to)
	must(t, r.Ahead(t.Context()))
	if _, still, err := (replica.Set{"": r}).Still(t.Context()); err != nil || !still {
		t.Logf("not still: %v", err)
		_, err := r.Copy(t.Context())
		must(t, err)
	}
	must(t, r.Remember())
	return to
}

// back puts dir back, and returns what is told of that, a change a line.
func back(t testing.TB, dir, then string) (replica.Changes, []string) {
	t.Helper()
	aside := t.TempDir()
	c, err := replica.Restore(t.Context(), dir, then, aside)
	must(t, err, replica.Remove(aside))
	var lines []string
	for _, p := range c.Paths {
		lines = append(lines, p.Verb+" "+p.Path)
	}
	slices.Sort(lines)
	return c, lines
}

func TestRestore(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "dir")
	must(t, os.Mkdir(dir, 0o755))
	furnish(t, dir)
	must(t, os.Chmod(filepath.Join(dir, "empty"), 0o400), os.Chmod(filepath.Join(dir, "deep/er"), 0o700)) // for an ordinary user to look into
	in := func(name string) string { return filepath.Join(dir, name) }
	write(t, in("lost/a/b"), "deep")
	write(t, in("one"), "linked")
	must(t, os.Link(in("one"), in("two")), os.Link(in("one"), in("lost/three")))
	write(t, in("wasfile"), "file")
	write(t, in("wasdir/x"), "x")
	must(t, os.Symlink("plain", in("lead")))
	then := keep(t, dir, "then")
	same(t, dir, then)

	write(t, in("plain"), "txet") // of the same size
	must(t, os.RemoveAll(in("lost")), os.Remove(in("two")))
	write(t, in("two"), "alone now")
	must(t, os.Remove(in("wasfile")), os.Mkdir(in("wasfile"), 0o755))
	write(t, in("wasfile/y"), "y")
	must(t, os.RemoveAll(in("wasdir")))
	write(t, in("wasdir"), "file")
	must(t, os.Remove(in("lead")), os.Symlink("/etc/passwd", in("lead")))
	write(t, in("new/file"), "new")
	must(t, unix.Mkfifo(in("pipe too"), 0o644))
	must(t, os.Chmod(in("deep"), 0o711), os.Chmod(in("deep/er/file"), 0o600))
	before := keep(t, dir, "before")

	_, lines := back(t, dir, then)
	same(t, then, dir)
	for _, want := range []string{
		"removed new/", "removed pipe too", "restored deep/", "restored deep/er/file", "restored lost/", "restored lost/a/b", "restored lead",
		"restored plain", "restored two", "restored wasdir/", "restored wasdir/x", "restored wasfile",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("%q is not told in\n%s", want, strings.Join(lines, "\n"))
		}
	}
	for _, line := range lines {
		if strings.Contains(line, "big") || strings.Contains(line, "run") {
			t.Errorf("%s", line)
		}
	}
	if c, lines := back(t, dir, then); c.Restored+c.Removed > 0 {
		t.Errorf("done again, it did %q", lines)
	}
	back(t, dir, before)
	same(t, before, dir)
}

// What is open stays open, and what is in place stays there.
func TestRestoreInPlace(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "dir")
	write(t, filepath.Join(dir, "d/f"), "one")
	write(t, filepath.Join(dir, "d/g"), "one")
	then := keep(t, dir, "then")
	number := func(name string) uint64 {
		var st unix.Stat_t
		must(t, unix.Lstat(filepath.Join(dir, name), &st))
		return st.Ino
	}
	d, f, g := number("d"), number("d/f"), number("d/g")
	open, err := os.Open(filepath.Join(dir, "d/f"))
	must(t, err)
	defer open.Close()
	write(t, filepath.Join(dir, "d/f"), "two")
	back(t, dir, then)
	if number("d") != d || number("d/g") != g {
		t.Error("what had not changed was replaced")
	}
	if number("d/f") == f {
		t.Error("a file was changed under who reads it")
	}
	text := make([]byte, 3)
	if _, err := open.ReadAt(text, 0); err != nil || string(text) != "two" {
		t.Errorf("who had it open reads %q, %v", text, err)
	}
}

func TestUnchanged(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "dir")
	must(t, os.Mkdir(dir, 0o755))
	furnish(t, dir)
	must(t, os.Chmod(filepath.Join(dir, "empty"), 0o400), os.Chmod(filepath.Join(dir, "deep/er"), 0o700)) // for an ordinary user to look into
	then := keep(t, dir, "then")
	is := func(what string, want bool) {
		t.Helper()
		got, err := replica.Unchanged(t.Context(), dir, then)
		must(t, err)
		if got != want {
			t.Errorf("%s: unchanged %v", what, got)
		}
	}
	is("nothing", true)
	for _, c := range []struct {
		what string
		do   func() error
	}{
		{"same size", func() error { return os.WriteFile(filepath.Join(dir, "plain"), []byte("txet"), 0o644) }},
		{"its time too", func() error {
			var st unix.Stat_t
			path := filepath.Join(dir, "plain")
			unix.Lstat(path, &st)
			os.WriteFile(path, []byte("xtte"), 0o644)
			return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{st.Atim, st.Mtim}, 0)
		}},
		{"mode", func() error { return os.Chmod(filepath.Join(dir, "empty"), 0o600) }},
		{"new", func() error { return os.WriteFile(filepath.Join(dir, "deep/new"), nil, 0o644) }},
		{"gone", func() error { return os.Remove(filepath.Join(dir, "deep/er/file")) }},
		{"attribute", func() error { return unix.Setxattr(filepath.Join(dir, "plain"), "user.x", []byte("y"), 0) }},
		{"mapping", func() error { return store(filepath.Join(dir, "big")) }},
	} {
		must(t, c.do())
		is(c.what, false)
		must(t, replica.Remove(then), os.Remove(then+".seen"))
		then = keep(t, dir, "then")
		is("nothing after "+c.what, true)
	}
}

// store changes a byte of a file through a mapping.
func store(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	m[7]++
	return unix.Munmap(m)
}

// A guest that exchanges folders for links while they are put back has nothing
// changed elsewhere.
func TestRestoreHostile(t *testing.T) {
	top := t.TempDir()
	dir, secret := filepath.Join(top, "dir"), filepath.Join(top, "secret")
	write(t, secret+"/file", "secret")
	write(t, secret+"/kept", "kept")
	write(t, dir+"/d/file", "public")
	must(t, os.Link(dir+"/d/file", dir+"/d/name"), os.Symlink(secret, dir+"/link"))
	then := keep(t, dir, "then")
	was := picture(t, secret)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			unix.Renameat2(unix.AT_FDCWD, dir+"/d", unix.AT_FDCWD, dir+"/link", unix.RENAME_EXCHANGE)
			os.WriteFile(dir+"/d/file", []byte("other"), 0o644) // which the link leads out, at times
			os.WriteFile(secret+"/file", []byte("secret"), 0o644)
			os.Symlink(secret+"/kept", dir+"/d/new")
			os.Rename(dir+"/d/new", dir+"/d/name")
		}
	}()
	for range 200 {
		aside := filepath.Join(top, "aside")
		must(t, os.Mkdir(aside, 0o700))
		replica.Restore(t.Context(), dir, then, aside)
		must(t, replica.Remove(aside))
	}
	cancel()
	<-ended
	must(t, os.WriteFile(secret+"/file", []byte("secret"), 0o644))
	must(t, os.RemoveAll(secret+"/new"), os.RemoveAll(secret+"/name"))
	strip := func(lines []string) (kept []string) {
		for _, l := range lines {
			l, _, _ = strings.Cut(l, " mtime")
			kept = append(kept, l)
		}
		return kept
	}
	if now := picture(t, secret); !slices.Equal(strip(now), strip(was)) {
		t.Errorf("elsewhere there is now\n%s", strings.Join(now, "\n"))
	}
	if _, lines := back(t, dir, then); len(lines) > 20 {
		t.Error(lines)
	}
	same(t, then, dir)
}
