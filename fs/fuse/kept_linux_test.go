package fuse

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"golang.org/x/sys/unix"

	"hutch/fs/need"
)

// all returns the names of what is kept, sorted.
func (w *watch) all() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.dirs {
		for name := range n.watched.kept {
			if name != "" {
				names = append(names, name+"\n")
			}
		}
	}
	slices.Sort(names)
	return names
}

// whenTold returns when the kernel was told of what is kept by a name.
func (w *watch) whenTold(name string) (when string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.dirs {
		if in := n.watched.kept[name]; in != nil {
			f := in.Operations().(*hostNode)
			f.mu.Lock()
			when = f.told.Format(time.RFC3339Nano)
			f.mu.Unlock()
		}
	}
	return when
}

// keeping serves a folder of which all is kept, as if it had not changed for
// long, but for so long as opaque after too many news.
func keeping(t *testing.T, opaque time.Duration) *served {
	t.Helper()
	need.FUSE(t)
	s := folders(t)
	s.env = []string{keepEnv + "=" + opaque.String()}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	s.after = func() { s.do("settle") }
	return s
}

// kept wants that to be kept, by these names.
func (s *served) kept(names ...string) {
	s.t.Helper()
	if got := s.do("kept"); got != strings.Join(append(names, ""), "\n") {
		s.t.Errorf("kept %q, want %q", got, names)
	}
}

// What the guest changed the host sees after it was told of it, though all is kept.
func TestKeptFirstCall(t *testing.T) { firstCalls(t, keeping(t, opaque), 50) }

// What changed lately is not kept, nor what has two names or is a link.
func TestKept(t *testing.T) {
	s := serving(t)
	for late := true; late; { // by a machine that is slow
		begun := time.Now()
		os.WriteFile(filepath.Join(s.work, "new"), []byte("text"), 0o644)
		os.Stat(s.path("work/new"))
		got := s.do("kept")
		if late = time.Since(begun) > unchanged; !late && got != "" {
			t.Errorf("kept %q, which is new", got)
		}
	}

	s = keeping(t, time.Hour)
	put := func(name string) { os.WriteFile(filepath.Join(s.work, name), []byte("text"), 0o644) }
	put("new")
	put("two")
	os.Link(filepath.Join(s.work, "two"), filepath.Join(s.work, "names"))
	os.Symlink("new", filepath.Join(s.work, "link"))
	for _, name := range []string{"new", "two", "names", "link"} {
		os.Lstat(s.path("work/" + name))
	}
	s.kept("new")
	put("new")
	s.do("settle")
	s.kept()
	os.ReadDir(s.path("work")) // the kernel takes what it is given
	s.kept("new")
	s.do("overflow")
	s.kept()
	os.Stat(s.path("work/new"))
	s.kept()
}

// A listing tells the kernel only of what it does not keep: git status, which
// looks at each file and then lists the folders, would ask twice else.
func TestKeptIsNotToldAgain(t *testing.T) {
	s := keeping(t, time.Hour)
	put := func() { os.WriteFile(filepath.Join(s.work, "f"), []byte("text"), 0o644) }
	list := func() string {
		os.ReadDir(s.path("work"))
		return s.do("told f")
	}
	for late := true; late; { // by a machine that is slow
		put()
		s.do("settle")
		begun := time.Now()
		first, second := list(), list()
		os.ReadFile(s.path("work/f"))
		third := list()
		put()
		s.do("settle")
		fourth := list()
		if late = time.Since(begun) > keep/2; !late && (first == "" || first != second || third == second || fourth == third) {
			t.Errorf("told at %s, %s, after a read %s, after a change %s", first, second, third, fourth)
		}
	}
}

// changing are changes of a file by the guest, and what the host sees of them.
var changing = []struct {
	what string
	do   func(file string, round int) error
}{
	{"append", func(f string, i int) error { return writeTo(f, os.O_APPEND, fmt.Sprint(i)) }},
	{"overwrite", func(f string, i int) error { return writeTo(f, 0, fmt.Sprint(i)) }},
	{"truncate", func(f string, i int) error { return os.Truncate(f, int64(i*7919%5000)) }},
	{"chmod", func(f string, i int) error { return os.Chmod(f, os.FileMode(0o600+i%0o100)) }},
	{"touch", func(f string, i int) error { return os.Chtimes(f, time.Time{}, time.Unix(int64(i), 0)) }},
	{"replace", func(f string, i int) error {
		if err := os.WriteFile(f+"~", fmt.Appendf(nil, "%d", i*i), 0o644); err != nil {
			return err
		}
		return os.Rename(f+"~", f)
	}},
	{"remove and make", func(f string, i int) error {
		if err := os.Remove(f); err != nil {
			return err
		}
		return os.WriteFile(f, fmt.Appendf(nil, "%d", i*i), 0o644)
	}},
	{"move the folder", func(f string, i int) error {
		dir := filepath.Dir(f)
		if err := os.Rename(dir, dir+".old"); err != nil {
			return err
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(f, fmt.Appendf(nil, "%d", i*i), 0o644); err != nil {
			return err
		}
		return os.RemoveAll(dir + ".old")
	}},
}

func writeTo(file string, flags int, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|flags, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

// TestKeptRaced has the guest change a file of which all is kept, while others
// on the host look at it all the time: after Settle it is what the guest has.
func TestKeptRaced(t *testing.T) {
	s := keeping(t, opaque)
	for _, c := range changing {
		t.Run(c.what, func(t *testing.T) {
			guest, host := filepath.Join(s.work, "d", "f"), s.path("work/d/f")
			os.MkdirAll(filepath.Dir(guest), 0o755)
			if err := os.WriteFile(guest, []byte("text"), 0o644); err != nil {
				t.Fatal(err)
			}
			held, err := os.Open(host) // that file, whatever it is called
			if err != nil {
				t.Fatal(err)
			}
			defer held.Close()
			own, err := os.Open(guest)
			if err != nil {
				t.Fatal(err)
			}
			defer own.Close()
			stop := make(chan struct{})
			var looking sync.WaitGroup
			defer looking.Wait()
			defer close(stop)
			for _, look := range []func(){
				func() { os.Stat(host) },
				func() { os.ReadFile(host) },
				func() { os.ReadDir(filepath.Dir(host)) },
				func() { held.Stat() },
			} {
				looking.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
							look()
						}
					}
				})
			}
			for round := range 300 {
				if err := c.do(guest, round); err != nil {
					t.Fatal(err)
				}
				s.after()
				same(t, round, func(st *unix.Stat_t) error { return unix.Stat(host, st) }, func(st *unix.Stat_t) error { return unix.Stat(guest, st) })
				same(t, round, func(st *unix.Stat_t) error { return unix.Fstat(int(held.Fd()), st) }, func(st *unix.Stat_t) error { return unix.Fstat(int(own.Fd()), st) })
			}
		})
	}
}

// same wants the host to see of a file what the guest has.
func same(t *testing.T, round int, host, guest func(*unix.Stat_t) error) {
	t.Helper()
	var want, got unix.Stat_t
	err := errors.Join(guest(&want), host(&got))
	got.Dev, got.Ino, got.Atim = want.Dev, want.Ino, want.Atim // others read it
	if got.Ctim != want.Ctim || got.Mtim != want.Mtim || got.Size != want.Size || got.Mode != want.Mode || err != nil {
		t.Fatalf("round %d: %v\nhost  %+v\nguest %+v", round, err, got, want)
	}
}

// TestKeptUntilTold has a file found by the name of another before the news come
// that the guest put it there: they are still about the other, which may be open.
func TestKeptUntilTold(t *testing.T) {
	root := new(gofs.Inode)
	gofs.NewNodeFS(root, &gofs.Options{})
	file := func(ino uint64) *gofs.Inode {
		return root.NewInode(t.Context(), new(gofs.Inode), gofs.StableAttr{Ino: ino})
	}
	w, dir := new(watch), &hostNode{watched: watched{wd: 1, kept: map[string]*gofs.Inode{}}}
	old, again, other := file(10), file(10), file(11)
	for _, in := range []*gofs.Inode{old, again} {
		if !w.keeps(dir, 0, "f", in) {
			t.Error("the same file is not kept")
		}
	}
	if w.keeps(dir, 0, "f", other) {
		t.Error("another file is kept in its place, of which there were no news")
	}
	if k := dir.changes("f", true); len(k) != 1 || k[0].in != again {
		t.Errorf("the news are about %v", k)
	}
	if !w.keeps(dir, 1, "f", other) {
		t.Error("the other file is not kept after them")
	}
}

// TestKeptStorm has the guest change more than is worth to be told.
func TestKeptStorm(t *testing.T) {
	s := keeping(t, opaque)
	for i := range 20 {
		os.WriteFile(filepath.Join(s.work, fmt.Sprint("f", i)), nil, 0o644)
		os.Stat(s.path(fmt.Sprint("work/f", i)))
	}
	for i := range 50 * many {
		if err := os.Truncate(filepath.Join(s.work, fmt.Sprint("f", i%20)), int64(i)); err != nil {
			t.Fatal(err)
		}
		if i%many == 0 {
			s.after()
			fi, err := os.Stat(s.path(fmt.Sprint("work/f", i%20)))
			if err != nil || fi.Size() != int64(i) {
				t.Fatalf("%d: %v, %v", i, fi.Size(), err)
			}
		}
	}
	s.after()
	for i := range 20 {
		want, _ := os.Stat(filepath.Join(s.work, fmt.Sprint("f", i)))
		if fi, err := os.Stat(s.path(fmt.Sprint("work/f", i))); err != nil || fi.Size() != want.Size() {
			t.Errorf("f%d: %v, %v, want %d", i, fi.Size(), err, want.Size())
		}
	}
}

// TestKeptDirectoryStands has a program stand in a folder while the guest
// changes all around it.
func TestKeptDirectoryStands(t *testing.T) {
	s := keeping(t, opaque)
	os.MkdirAll(filepath.Join(s.work, "d"), 0o755)
	os.WriteFile(filepath.Join(s.work, "d/f"), nil, 0o644)
	sh := s.command("sh", "-c", "cd "+s.path("work/d")+"; cat f; echo in; read x; /bin/pwd -P; cat f")
	in, _ := sh.StdinPipe()
	out, _ := sh.StdoutPipe()
	if err := sh.Start(); err != nil {
		t.Fatal(err)
	}
	defer sh.Wait()
	defer in.Close()
	b := make([]byte, 3)
	if _, err := io.ReadFull(out, b); string(b) != "in\n" {
		t.Fatalf("%q, %v", b, err)
	}
	os.Stat(s.path("work/d"))
	os.Chmod(filepath.Join(s.work, "d"), 0o700)
	os.WriteFile(filepath.Join(s.work, "d/f"), []byte("more\n"), 0o644)
	s.after()
	s.do("overflow")
	fmt.Fprintln(in)
	if rest, err := io.ReadAll(out); string(rest) != s.path("work/d")+"\nmore\n" {
		t.Errorf("%q, %v", rest, err)
	}
}

// TestKeptRenamed has a client rename a file of which all is kept: what is kept
// of it does not outlive what the guest then does.
func TestKeptRenamed(t *testing.T) {
	s := keeping(t, opaque)
	guest, host := filepath.Join(s.work, "f"), s.path("work/f")
	if err := os.WriteFile(guest, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(host)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	os.Stat(host)
	if err := os.Rename(host, host+"2"); err != nil {
		t.Fatal(err)
	}
	if err := writeTo(guest+"2", os.O_APPEND, " and more"); err != nil {
		t.Fatal(err)
	}
	s.after()
	if end, err := held.Seek(0, io.SeekEnd); end != 13 || err != nil {
		t.Errorf("its end is at %d, %v", end, err)
	}
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, host+"2", 0, unix.STATX_SIZE, &st); st.Size != 13 || err != nil {
		t.Errorf("its size is %d, %v", st.Size, err)
	}
}

// TestKeptLinked has the guest give another name to a file of which all is
// kept, and use that.
func TestKeptLinked(t *testing.T) {
	s := keeping(t, 0)
	for i := range 20 {
		name := fmt.Sprint("f", i)
		guest, host := filepath.Join(s.work, name), s.path("work/"+name)
		if err := os.WriteFile(guest, []byte("text"), 0o644); err != nil {
			t.Fatal(err)
		}
		os.Stat(host)
		if err := os.Link(guest, guest+"-2"); err != nil {
			t.Fatal(err)
		}
		if err := writeTo(guest+"-2", os.O_APPEND, " and more"); err != nil {
			t.Fatal(err)
		}
		s.after()
		var st unix.Stat_t
		if err := unix.Stat(host, &st); st.Size != 13 || st.Nlink != 2 || err != nil {
			t.Fatalf("%s: %d bytes, %d names, %v", name, st.Size, st.Nlink, err)
		}
	}
}
