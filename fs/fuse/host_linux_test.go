package fuse

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/posixtest"
	"golang.org/x/sys/unix"

	"hutch/fs/folder"
	"hutch/fs/need"
)

// A file of a host folder has one number, over FUSE and in its node.
func TestHostNumbers(t *testing.T) {
	s := serving(t)
	if err := os.WriteFile(filepath.Join(s.work, "f"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := folder.Open(s.work, "work")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, err := f.Root().Walk(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	want, err := n.Stat(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got unix.Stat_t
	if err := unix.Stat(s.path("work/f"), &got); err != nil || got.Ino != want.Qid {
		t.Errorf("number %#x, node has %#x; %v", got.Ino, want.Qid, err)
	}
	list, _ := s.sh("dash", "ls -i work")
	if list != fmt.Sprintf("%d f\n", want.Qid) {
		t.Errorf("listed %q, want %d", list, want.Qid)
	}
}

func TestHostFolder(t *testing.T) {
	s := serving(t)
	work := func(name string) string { return s.path("work/" + name) }
	os.WriteFile(filepath.Join(s.work, "a"), []byte("text"), 0o640)
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	steps := []struct {
		what string
		do   func() error
		want error
	}{
		{"create", func() error { return os.WriteFile(work("b"), []byte("b"), 0o666) }, nil},
		{"mkdir", func() error { return os.Mkdir(work("d"), 0o777) }, nil},
		{"symlink out", func() error { return os.Symlink("/etc/passwd", work("s")) }, nil},
		{"link", func() error { return os.Link(work("a"), work("l")) }, nil},
		{"link of a link", func() error { return os.Link(work("s"), work("sl")) }, nil},
		{"fifo", func() error { return unix.Mkfifo(work("p"), 0o644) }, nil},
		{"device", func() error { return unix.Mknod(work("n"), unix.S_IFCHR|0o644, 0x103) }, unix.EPERM},
		{"rename noreplace", func() error {
			return unix.Renameat2(unix.AT_FDCWD, work("a"), unix.AT_FDCWD, work("b"), unix.RENAME_NOREPLACE)
		}, unix.EEXIST},
		{"exchange", func() error {
			return unix.Renameat2(unix.AT_FDCWD, work("a"), unix.AT_FDCWD, work("b"), unix.RENAME_EXCHANGE)
		}, nil},
		{"rename", func() error { return os.Rename(work("b"), work("d/b")) }, nil},
		{"out of the folder", func() error { return os.Rename(work("d/b"), s.path("store/b")) }, unix.EXDEV},
		{"chmod", func() error { return os.Chmod(work("d/b"), 0o600) }, nil},
		{"lchown", func() error { return os.Lchown(work("s"), 7, 8) }, nil},
		{"chown", func() error { return os.Chown(work("d/b"), -1, 9) }, nil},
		{"truncate", func() error { return os.Truncate(work("d/b"), 2) }, nil},
		{"rmdir full", func() error { return unix.Rmdir(work("d")) }, unix.ENOTEMPTY},
		{"unlink", func() error { return unix.Unlink(work("l")) }, nil},
		{"attribute", func() error { return unix.Setxattr(work("a"), "security.x", []byte("1"), 0) }, unix.EOPNOTSUPP},
		{"exclusive", func() error {
			_, err := os.OpenFile(work("a"), os.O_CREATE|os.O_EXCL, 0o644)
			return err
		}, unix.EEXIST},
	}
	for _, c := range steps {
		if err := c.do(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}
	out, err := s.sh("dash", "cd work && find . -printf '%p %m %U %G %s %l\\n' | grep -v '^[.] ' | sort")
	want := "./a 666 0 0 1 \n./d 777 0 0 4096 \n./d/b 600 0 9 2 \n./p 644 0 0 0 \n./s 777 7 8 11 /etc/passwd\n./sl 777 7 8 11 /etc/passwd\n"
	if err != nil || out != want {
		t.Errorf("%v\n%s, want\n%s", err, out, want)
	}
	s.do("handles 0")
	s.do("open 0")
}

// What others do in the folder is seen.
func TestHostChangesBeneath(t *testing.T) {
	s := serving(t)
	host, work := filepath.Join(s.work, "f"), s.path("work/f")
	if err := os.WriteFile(host, []byte("one"), 0o644); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(work); string(b) != "one" {
		t.Fatalf("%q %v", b, err)
	}
	os.WriteFile(host+"~", []byte("another"), 0o644)
	os.Rename(host+"~", host)
	if b, err := os.ReadFile(work); string(b) != "another" {
		t.Errorf("after a rename over it: %q %v", b, err)
	}
	f, err := os.OpenFile(work, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, _ := os.OpenFile(host, os.O_APPEND|os.O_WRONLY, 0)
	defer h.Close()
	h.WriteString(" 1")
	f.WriteString(" 2")
	h.WriteString(" 3")
	if b, err := os.ReadFile(work); string(b) != "another 1 2 3" {
		t.Errorf("appended from both sides: %q %v", b, err)
	}
	os.Remove(host)
	if _, err := os.ReadFile(work); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after a remove: %v", err)
	}
	os.WriteFile(host, []byte("anew"), 0o644)
	if b, err := os.ReadFile(work); string(b) != "anew" {
		t.Errorf("made anew: %q %v", b, err)
	}
}

// replacing has a file of the workspace replaced all the time, each time by a
// hundred times the same digit, until the test ends.
func (s *served) replacing(name string) {
	s.t.Helper()
	host := filepath.Join(s.work, name)
	put := func(i int) {
		os.WriteFile(host+"~", []byte(strings.Repeat(fmt.Sprint(i%10), 100)), 0o644)
		os.Rename(host+"~", host)
	}
	put(0)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
				put(i)
			}
		}
	})
	s.t.Cleanup(func() { close(stop); wg.Wait() })
}

// A file that is replaced all the time can always be read, whole.
func TestHostPolledFile(t *testing.T) {
	s := serving(t)
	s.replacing("f")
	for range 1000 {
		b, err := os.ReadFile(s.path("work/f"))
		if err != nil || len(b) != 100 || string(b) != strings.Repeat(string(b[:1]), 100) {
			t.Fatalf("%q %v", b, err)
		}
	}
}

// The same, by many at a time.
func TestHostFilePolledByMany(t *testing.T) {
	s := serving(t)
	if err := os.Mkdir(filepath.Join(s.work, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.replacing("d/f")
	var readers sync.WaitGroup
	for range 12 {
		readers.Go(func() {
			for range 50 {
				_, err := os.ReadFile(s.path("work/d/f"))
				_, serr := os.Stat(s.path("work/d/f"))
				if err != nil || serr != nil {
					t.Error(err, serr)
					return
				}
			}
		})
	}
	readers.Wait()
}

func TestHostMap(t *testing.T) {
	s := serving(t)
	if err := os.WriteFile(s.path("work/f"), make([]byte, 8192), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(s.path("work/f"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	copy(m[5000:], "mapped")
	if err := unix.Msync(m, unix.MS_SYNC); err != nil {
		t.Error(err)
	}
	if err := unix.Munmap(m); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(s.work, "f")); err != nil || string(b[5000:5006]) != "mapped" {
		t.Errorf("%v", err)
	}
}

// A file that the kernel does not read by itself, as one on a file system that
// lies on others, is read without its pages, and the next is as those before.
func TestHostFileNotPassed(t *testing.T) {
	need.FUSE(t)
	s, under := folders(t), folders(t)
	under.dir = filepath.Join(s.work, "under") // takes as many layers as there may be
	if err := errors.Join(under.start(), s.start()); err != nil {
		t.Fatal(err)
	}
	if s.do("passes") != "true" {
		t.Skip("this kernel reads no file by itself, or not for this user")
	}
	for _, at := range []string{"before", "under/work/f", "after"} {
		guest := filepath.Join(s.work, at)
		if at == "under/work/f" {
			guest = filepath.Join(under.work, "f")
		}
		var f *os.File
		for _, text := range []string{"text", "TEXT"} { // which size and time do not tell
			if err := os.WriteFile(guest, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			os.Chtimes(guest, time.Unix(1, 0), time.Unix(1, 0))
			if f == nil {
				var err error
				if f, err = os.Open(s.path("work/" + at)); err != nil {
					t.Fatal(err)
				}
				defer f.Close()
			}
			b := make([]byte, 4)
			if _, err := f.ReadAt(b, 0); err != nil || string(b) != text {
				t.Errorf("%s: %q, %v, want %q", at, b, err, text)
			}
		}
		if guest == filepath.Join(s.work, at) && !s.passed(f) {
			t.Errorf("%s: its server was asked for what is in it", at)
		}
	}
}

// passed says whether the kernel reads f while the server is stopped.
func (s *served) passed(f *os.File) bool {
	s.cmd.Process.Signal(unix.SIGSTOP)
	late := time.AfterFunc(time.Minute, func() { s.cmd.Process.Signal(unix.SIGCONT) })
	defer s.cmd.Process.Signal(unix.SIGCONT)
	f.ReadAt(make([]byte, 1), 0)
	return late.Stop()
}

// Pipes and sockets are shown, and are the mount's own when they are opened.
func TestHostSpecialFiles(t *testing.T) {
	s := serving(t)
	for name, mode := range map[string]uint32{"p": unix.S_IFIFO, "s": unix.S_IFSOCK, "c": unix.S_IFCHR} {
		if err := unix.Mknod(filepath.Join(s.work, name), mode|0o666, int(unix.Mkdev(1, 3))); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]error{"c": unix.EACCES, "s": unix.ENXIO} {
		if fd, err := unix.Open(s.path("work/"+name), unix.O_RDONLY, 0); err != want {
			t.Errorf("%s: %d %v, want %v", name, fd, err, want)
		}
	}
	fd, err := unix.Open(s.path("work/p"), unix.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != unix.ENXIO {
		t.Errorf("pipe without a reader: %d %v", fd, err)
	}
	out, err := s.sh("dash", "cd work && stat -c %F c p s")
	if err != nil || out != "character special file\nfifo\nsocket\n" {
		t.Errorf("%q %v", out, err)
	}
}

// The folder itself can be exchanged for another.
func TestHostFolderReplaced(t *testing.T) {
	s := serving(t)
	os.WriteFile(filepath.Join(s.work, "f"), []byte("old"), 0o644)
	if b, err := os.ReadFile(s.path("work/f")); string(b) != "old" {
		t.Fatalf("%q %v", b, err)
	}
	if err := os.Rename(s.work, s.work+".old"); err != nil {
		t.Fatal(err)
	}
	os.Mkdir(s.work, 0o755)
	os.WriteFile(filepath.Join(s.work, "f"), []byte("new"), 0o644)
	if b, err := os.ReadFile(s.path("work/f")); string(b) != "new" {
		t.Errorf("%q %v", b, err)
	}
}

// outside makes a folder that nothing done in the workspace may touch, and
// returns a check that it was not.
func outside(t *testing.T) (string, func()) {
	top := t.TempDir()
	dir := filepath.Join(top, "e")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"f", "g", "outside"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return top, func() {
		t.Helper()
		list, err := os.ReadDir(dir)
		if err != nil || len(list) != 3 {
			t.Errorf("outside has %v %v", list, err)
		}
		for _, e := range list {
			b, err := os.ReadFile(filepath.Join(dir, e.Name()))
			fi, err2 := e.Info()
			if err != nil || err2 != nil || string(b) != "secret" || fi.Mode() != 0o600 || fi.Sys().(*syscall.Stat_t).Nlink != 1 {
				t.Errorf("outside %s: %q %v %v", e.Name(), b, fi, err)
			}
		}
	}
}

// operations are what a client can do in a directory, a part of whose path may
// have become a link to somewhere else since the kernel looked.
func operations(d string) map[string]func() error {
	return map[string]func() error{
		"read": func() error {
			b, err := os.ReadFile(d + "/f")
			if strings.Contains(string(b), "secret") {
				return errEscaped
			}
			return err
		},
		"write":    func() error { return os.WriteFile(d+"/f", []byte("x"), 0o644) },
		"append":   func() error { _, err := os.OpenFile(d+"/f", os.O_APPEND|os.O_WRONLY, 0); return err },
		"create":   func() error { return os.WriteFile(d+"/new", []byte("x"), 0o644) },
		"mkdir":    func() error { return os.Mkdir(d+"/newdir", 0o755) },
		"mkfifo":   func() error { return unix.Mkfifo(d+"/fifo", 0o644) },
		"symlink":  func() error { return os.Symlink("f", d+"/sym") },
		"link":     func() error { return os.Link(d+"/f", d+"/hard") },
		"chmod":    func() error { return os.Chmod(d+"/f", 0o777) },
		"truncate": func() error { return os.Truncate(d+"/f", 0) },
		"chtimes":  func() error { return unix.Utimes(d+"/f", []unix.Timeval{{Sec: 1}, {Sec: 1}}) },
		"rename":   func() error { return os.Rename(d+"/f", d+"/h") },
		"take":     func() error { return os.Rename(d+"/g", filepath.Dir(d)+"/taken") },
		"unlink":   func() error { return os.Remove(d + "/g") },
		"list": func() error {
			list, err := os.ReadDir(d)
			if slices.ContainsFunc(list, func(e os.DirEntry) bool { return e.Name() == "outside" }) {
				return errEscaped
			}
			return err
		},
	}
}

var errEscaped = errors.New("read what is outside")

// trapped serves a folder whose other users exchange the directory d for a
// link to the outside. The link leads to /proc/self/cwd: for the server that
// is the outside, for the client, who may follow it as he likes, nothing.
func trapped(t *testing.T) (s *served, check func()) {
	t.Helper()
	need.FUSE(t)
	s = folders(t)
	s.cwd, check = outside(t)
	t.Chdir(t.TempDir())
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	d := filepath.Join(s.work, "d")
	if err := os.MkdirAll(d+"/e", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/proc/self/cwd", d+".link"); err != nil {
		t.Fatal(err)
	}
	return s, check
}

func (s *served) swap() error {
	d := filepath.Join(s.work, "d")
	return unix.Renameat2(unix.AT_FDCWD, d, unix.AT_FDCWD, d+".link", unix.RENAME_EXCHANGE)
}

func TestSwappedDirectory(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(operations(""))) {
		t.Run(name, func(t *testing.T) {
			s, check := trapped(t)
			d := s.path("work/d/e")
			for _, f := range []string{"f", "g", "marker"} {
				os.WriteFile(filepath.Join(s.work, "d/e", f), []byte("mine"), 0o644)
				os.Stat(filepath.Join(d, f)) // the kernel knows it now
			}
			if err := s.swap(); err != nil {
				t.Fatal(err)
			}
			if err := operations(d)[name](); errors.Is(err, errEscaped) {
				t.Error(err)
			}
			check()
		})
	}
}

// The same, exchanged back and forth while a client works below.
func TestSwappingDirectory(t *testing.T) {
	s, check := trapped(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				s.swap()
			}
		}
	})
	for range 50 {
		for name, do := range operations(s.path("work/d/e")) {
			if err := do(); errors.Is(err, errEscaped) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	close(stop)
	wg.Wait()
	check()
}

func TestPosix(t *testing.T) {
	for name, test := range posixtest.All {
		if name == "FcntlFlockLocksFile" {
			continue // locks are the kernel's, among the clients of the mount
		}
		t.Run(name, func(t *testing.T) {
			s := serving(t)
			test(t, s.path("work"))
		})
	}
}
