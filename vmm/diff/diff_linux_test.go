package diff_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs"
	"hutch/fs/need"
	"hutch/vmm/diff"
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// sides returns two folders, of which set fills one.
func sides(t testing.TB) (a, b string, set func(path, text string)) {
	a, b = t.TempDir(), t.TempDir()
	return a, b, func(path, text string) {
		t.Helper()
		dir, name, _ := strings.Cut(path, "/")
		path = filepath.Join(map[string]string{"a": a, "b": b}[dir], name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
	}
}

func TestFolders(t *testing.T) {
	a, b, set := sides(t)
	both := func(path, text string) { set("a/"+path, text); set("b/"+path, text) }
	both("same", "text")
	both("d/same", "text")
	now := time.Now()
	set("a/edited", "aaaa")
	set("b/edited", "bbbb") // same size, same time
	must(t, os.Chtimes(a+"/edited", now, now), os.Chtimes(b+"/edited", now, now))
	set("a/longer", "x")
	set("b/longer", "xy")
	big := strings.Repeat("0123456789", 100_000)
	set("a/d/big", big)
	set("b/d/big", big[:len(big)-1]+"x")
	set("a/lost", "lost it")
	set("b/new one", "new")
	set("b/line\nend", "")
	set("b/\"q\"", "")
	set("b/\xff", "")
	set("b/über", "")
	set("a/from", "moved contents")
	set("b/d/to", "moved contents")
	set("a/empty", "")
	set("b/emptied", "")
	set("a/was/a/folder", "1")
	set("b/was", "1")
	set("a/grown", "x")
	set("b/grown/up", "x")
	both("run", "#!")
	must(t, os.Chmod(b+"/run", 0o755|os.ModeSetuid))
	must(t, os.Symlink("x", a+"/link"), os.Symlink("y", b+"/link"), os.Symlink("/etc", a+"/out"), os.Symlink("/etc", b+"/out"))
	must(t, unix.Mkfifo(a+"/pipe", 0o644), unix.Mkfifo(b+"/pipe", 0o644))
	// removed from a lower layer; removed in both; there again
	both("hidden", "")
	must(t, unix.Mknod(b+"/whiteout", unix.S_IFCHR, 0))
	must(t, unix.Mknod(a+"/gone", unix.S_IFCHR, 0), unix.Mknod(b+"/gone", unix.S_IFCHR, 0))
	must(t, unix.Mknod(a+"/back", unix.S_IFCHR, 0))
	set("b/back", "here")
	must(t, os.MkdirAll(b+"/tree/with", 0o755))
	set("b/tree/with/leaf", "leaf")
	want := strings.Join([]string{
		`added p/"\"q\""`,
		`added p/back`,
		`changed p/d/big`,
		`changed p/edited`,
		`added p/emptied`,
		`removed p/empty`,
		`renamed p/from p/d/to`,
		`changed p/grown`,
		`added p/grown/up`,
		`added "p/line\nend"`,
		`changed p/link`,
		`changed p/longer`,
		`removed p/lost`,
		`added "p/new one"`,
		`mode p/run 0644 4755`,
		`added p/tree/`,
		`added p/tree/with/`,
		`added p/tree/with/leaf`,
		`changed p/was`,
		`removed p/was/a/`,
		`removed p/was/a/folder`,
		`removed p/whiteout`,
		`added p/über`,
		`added "p/\xff"`,
	}, "\n") + "\n"
	want = strings.Replace(want, `p/"\"q\""`, `"p/\"q\""`, 1)
	got, err := (diff.Bounds{}).Folders(t.Context(), a, b, "p/")
	must(t, err)
	if got != want {
		t.Errorf("difference is\n%s\nwant\n%s", got, want)
	}
	if back, err := (diff.Bounds{}).Folders(t.Context(), a, a, ""); back != "" || err != nil {
		t.Errorf("difference to itself: %q, %v", back, err)
	}
}

func TestOwner(t *testing.T) {
	need.Root(t)
	a, b, set := sides(t)
	set("a/f", "x")
	set("b/f", "x")
	must(t, os.Chown(b+"/f", 5, 6))
	got, err := (diff.Bounds{}).Folders(t.Context(), a, b, "")
	if must(t, err); got != "owner f 0:0 5:6\n" {
		t.Errorf("difference is %q", got)
	}
}

func TestRenamesOneForOne(t *testing.T) {
	a, b, set := sides(t)
	set("a/1", "same")
	set("a/2", "same")
	set("a/3", "same")
	set("b/x", "same")
	set("b/y", "same")
	set("b/z", "othr")
	got, err := (diff.Bounds{}).Folders(t.Context(), a, b, "")
	if want := "renamed 1 x\nrenamed 2 y\nremoved 3\nadded z\n"; err != nil || got != want {
		t.Errorf("difference is %q, %v", got, err)
	}
}

func TestErrors(t *testing.T) {
	a, b, set := sides(t)
	set("a/f", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (diff.Bounds{}).Folders(ctx, a, b, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if _, err := (diff.Bounds{}).Folders(t.Context(), a, b+"/none", ""); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
}

// A folder that is exchanged for a link out of it while it is compared shows
// nothing of where that leads.
func TestLinkOut(t *testing.T) {
	a, b, set := sides(t)
	secret := t.TempDir()
	must(t, os.WriteFile(secret+"/secret", []byte("x"), 0o600))
	set("b/d/file", "x")
	must(t, os.Symlink(secret, b+"/link"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			unix.Rename(b+"/d", b+"/tmp")
			unix.Rename(b+"/link", b+"/d")
			unix.Rename(b+"/d", b+"/link")
			unix.Rename(b+"/tmp", b+"/d")
		}
	}()
	for range 300 {
		if got, err := (diff.Bounds{}).Folders(t.Context(), a, b, ""); err != nil || strings.Contains(got, "secret") {
			t.Fatalf("%s, %v", got, err)
		}
	}
	cancel()
	<-ended
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"plain/path.txt": "plain/path.txt", "with 'quote'": `"with 'quote'"`, "it's": `"it's"`, "": `""`,
		"a\tb": `"a\tb"`, `a\b`: `"a\\b"`, "日本": "日本", "\u202etxt": `"\u202etxt"`, "\u00a0": `"\u00a0"`,
	} {
		if got := diff.Quote(in); got != want {
			t.Errorf("Quote(%q) = %s, want %s", in, got, want)
		}
	}
}

// Folders that a guest made deep in each other are told down to where paths
// end, and not for ever.
func TestDeep(t *testing.T) {
	a, b, _ := sides(t)
	name := strings.Repeat("n", 100)
	fd, err := unix.Open(b, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	for range 300 {
		must(t, unix.Mkdirat(fd, name, 0o755))
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(t, err)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	text, err := (diff.Bounds{}).Folders(t.Context(), a, b, "")
	must(t, err)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 42 || strings.Count(text, "added ") != 41 || strings.Count(text, "unreadable ") != 1 {
		t.Errorf("%d lines, the last %.100q", len(lines), lines[len(lines)-1])
	}
}

// What a comparison remembers has a bound, of differences and of names that
// are the same.
func TestMost(t *testing.T) {
	a, b, set := sides(t)
	name := func(i int) string { return fmt.Sprintf("/%d/%s%d", i/100, strings.Repeat("n", 200), i) }
	for i := range 1000 {
		set("a"+name(i), "")
	}
	for _, c := range []struct {
		what string
		to   string
		most int
		ends bool
	}{
		{"differences", b, 400 << 10, true},
		{"no more than that of them", b, 600 << 10, false},
		{"names", a, 20 << 10, true},
		{"a folder's at a time", a, 100 << 10, false},
	} {
		if _, err := (diff.Bounds{Most: c.most}).Folders(t.Context(), a, c.to, ""); errors.Is(err, fs.ErrTooLarge) != c.ends {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
