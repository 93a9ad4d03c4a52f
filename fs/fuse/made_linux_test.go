package fuse

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"hutch/fs/fstest"
)

func TestRead(t *testing.T) {
	s := serving(t)
	for _, c := range []struct{ script, want string }{
		{"cat status", fstest.Status},
		{"dd bs=1 if=status 2>/dev/null", fstest.Status},
		{"dd bs=7 skip=1 if=status 2>/dev/null", fstest.Status[7:]},
		{"tail -c 5 status", fstest.Status[len(fstest.Status)-5:]},
		{"wc -c <status", "19\n"},
		{"stat -c '%s %F %a' status", "0 regular empty file 444\n"},
		{"stat -c '%s' big", "1048576\n"},
		{"cat big | wc -c", "1048576\n"},
		{"cat link", fstest.Status},
		{"readlink link", "status\n"},
		{"cat deep/a/b/c/leaf", "leaf\n"},
		{"cat many/* | sort | tail -n 1", "f99\n"},
		{"ls -a deep", ".\n..\na\n"},
		{"find deep -type d | sort | tail -n 1", "deep/a/b/c\n"},
		{"test $(stat -c %i deep) = $(ls -id deep/a/.. | cut -d' ' -f1) && echo same", "same\n"},
		{"cp -r deep /dev/null/x 2>&1 | grep -c Not.a.directory", "1\n"},
		{"cat missing 2>&1 | grep -c 'No such file'", "1\n"},
		{"touch new 2>&1 | grep -c 'Operation not permitted'", "1\n"},
		{"mkdir new 2>&1 | grep -c 'Operation not permitted'", "1\n"},
		{"rm -f status 2>&1 | grep -c 'Operation not permitted'", "1\n"},
		{"mv status store/status 2>&1 | grep -c 'Operation not permitted'", "1\n"},
		{"cat $(printf %300s | tr ' ' x) 2>&1 | grep -c 'File name too long'", "1\n"},
		{"getfattr -d status 2>/dev/null; echo", "\n"},
	} {
		out, err := s.sh("dash", c.script)
		if out != c.want {
			t.Errorf("%s: %q, %v; want %q", c.script, out, err, c.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	s := serving(t)
	list, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 10 {
		t.Errorf("%d entries: %v", len(list), list)
	}
	var listed []uint64
	fd, err := unix.Open(s.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for _, e := range list {
		var st, again unix.Stat_t
		if err := unix.Fstatat(fd, e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			t.Fatal(err)
		}
		unix.Fstatat(fd, e.Name(), &again, unix.AT_SYMLINK_NOFOLLOW)
		if st.Ino != again.Ino || slices.Contains(listed, st.Ino) {
			t.Errorf("%s: number %d, then %d", e.Name(), st.Ino, again.Ino)
		}
		if made := e.Name() != "work" && e.Name() != "store"; made && st.Ino >= 1<<48 {
			t.Errorf("%s: number %#x of a made-up file", e.Name(), st.Ino)
		}
		listed = append(listed, st.Ino)
	}
}

func TestWriteCtl(t *testing.T) {
	s := serving(t)
	var want string
	for _, shell := range []string{"dash", "bash", "rc"} {
		for _, script := range []string{
			"echo start > ctl",
			"echo start >> ctl",
			"echo start | tee ctl >/dev/null",
			"echo start | dd bs=64 status=none of=ctl",
		} {
			if shell == "rc" {
				script = strings.NewReplacer("status=none", "'status=none'", "of=ctl", "'of=ctl'", "bs=64", "'bs=64'").Replace(script)
			}
			if out, err := s.sh(shell, script); err != nil {
				t.Errorf("%s: %s: %v %s", shell, script, err, out)
			}
			want += "start\n"
		}
	}
	for _, shell := range []string{"dash", "bash"} {
		if out, err := s.sh(shell, "set -C; echo start >> ctl; echo start >| ctl"); err != nil {
			t.Errorf("%s: set -C: %v %s", shell, err, out)
		}
		want += "start\nstart\n"
	}
	if _, err := s.sh("dash", "touch ctl; chmod 600 ctl; truncate -s 0 ctl"); err != nil {
		t.Error(err)
	}
	if got := s.do("messages"); got != want {
		t.Errorf("messages %q, want %q", got, want)
	}
	if out, err := s.sh("bash", "echo bad > ctl"); err == nil || !strings.Contains(out, "Invalid argument") {
		t.Errorf("bad message: %v %s", err, out)
	}
	if _, err := os.OpenFile(s.path("ctl"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666); !errors.Is(err, fs.ErrExist) {
		t.Errorf("exclusive create: %v", err)
	}
}

func TestNonblock(t *testing.T) {
	s := serving(t)
	fd, err := unix.Open(s.path("events"), unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	p := make([]byte, 100)
	if _, err := unix.Read(fd, p); err != unix.EAGAIN {
		t.Errorf("read: %v", err)
	}
	s.do("push one")
	if n, err := unix.Read(fd, p[:2]); err != nil || string(p[:n]) != "on" {
		t.Errorf("read: %q %v", p[:max(n, 0)], err)
	}
	if n, err := unix.Read(fd, p); err != nil || string(p[:n]) != "e\n" {
		t.Errorf("read: %q %v", p[:max(n, 0)], err)
	}
}

// One read of more than the kernel asks for at a time returns what is there.
func TestLongReadOfStream(t *testing.T) {
	s := serving(t)
	line := strings.Repeat("x", 32<<10-1)
	for range 6 {
		s.do("push %s", line)
	}
	fd, err := unix.Open(s.path("events"), unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	p, got := make([]byte, 1<<20), 0
	for got < 6*32<<10 {
		n, err := unix.Read(fd, p)
		if err != nil {
			t.Fatal(err)
		}
		got += n
	}
}

// A message that takes its time holds up nobody else's.
func TestWriteBesideBlockedWrite(t *testing.T) {
	s := serving(t)
	first := s.command("dash", "-c", "echo one > "+s.path("wait"))
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	s.do("blocked 1")
	second := s.command("dash", "-c", "echo two > "+s.path("wait"))
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	s.do("blocked 2")
	second.Process.Signal(syscall.SIGINT)
	second.Wait()
	s.do("blocked 1")
	first.Process.Signal(syscall.SIGKILL)
	first.Wait()
	s.do("blocked 0")
	s.do("handles 0")
}

// Programs that read too much of a stream and seek back lose nothing.
func TestSeekBack(t *testing.T) {
	s := serving(t)
	s.do("push one")
	s.do("push two")
	for _, shell := range []string{"dash", "bash"} {
		out, err := s.sh(shell, "{ read a; read b; echo $b $a; } <events; { head -n 1; head -n 1; } <events")
		if err != nil || out != "two one\none\ntwo\n" {
			t.Errorf("%s: %q %v", shell, out, err)
		}
	}
}

// Who has a stream open for reading and writing does both at once.
func TestStreamBothWays(t *testing.T) {
	s := serving(t)
	f, err := os.OpenFile(s.path("wait"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	ends := make(chan error, 2)
	go func() {
		_, err := f.Read(make([]byte, 10))
		ends <- err
	}()
	s.do("blocked 1")
	go func() {
		_, err := f.Write([]byte("text"))
		ends <- err
	}()
	s.do("blocked 2")
	s.do("close")
	for range 2 {
		if err := <-ends; err == nil {
			t.Error("no error after the end of the tree")
		}
	}
	f.Close()
}

// stateOf returns a process' state: R, S, D, Z, …
func stateOf(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(stat), ") ")
	return after[:min(1, len(after))]
}

func TestInterrupt(t *testing.T) {
	s := serving(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		for _, name := range []string{"events", "wait"} {
			c := s.command("cat", s.path(name))
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			s.do("blocked 1")
			if state := stateOf(c.Process.Pid); state == "D" {
				t.Errorf("%s: blocked in state %s", name, state)
			}
			c.Process.Signal(sig)
			c.Wait()
			if st := c.ProcessState.Sys().(syscall.WaitStatus); !st.Signaled() || st.Signal() != sig {
				t.Errorf("%s %v: %v", name, sig, c.ProcessState)
			}
			s.do("blocked 0")
			s.do("handles 0")
		}
	}
	if n := s.do("interrupted"); n != "6" {
		t.Errorf("%s interrupted", n)
	}
	s.do("push kept")
	out, err := s.sh("dash", "head -n 1 events")
	if err != nil || out != "kept\n" {
		t.Errorf("after the interrupts: %q %v", out, err)
	}
}

func TestManyReaders(t *testing.T) {
	s := serving(t)
	const readers = 200
	var wg sync.WaitGroup
	lines := make(chan string, readers)
	for range readers {
		wg.Go(func() {
			f, err := os.Open(s.path("events"))
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			p := make([]byte, 64)
			n, err := f.Read(p)
			if err != nil {
				t.Error(err)
			}
			lines <- string(p[:n])
		})
	}
	s.do("blocked %d", readers)
	if out, err := s.sh("dash", "cat status && echo x > ctl && ls -lR . >/dev/null && echo y > store/f && cat store/f && echo z > work/f && cat work/f && du -s . >/dev/null && rm store/f"); err != nil || out != fstest.Status+"y\nz\n" {
		t.Errorf("beside %d readers: %v %s", readers, err, out)
	}
	s.do("push for all")
	wg.Wait()
	close(lines)
	for l := range lines {
		if l != "for all\n" {
			t.Errorf("read %q", l)
		}
	}
	s.do("handles 0")
}

func TestStore(t *testing.T) {
	s := serving(t)
	store := func(name string) string { return s.path("store/" + name) }
	steps := []struct {
		what string
		do   func() error
		want error
	}{
		{"write", func() error { return os.WriteFile(store("a"), []byte("text"), 0o640) }, nil},
		{"mkdir", func() error { return os.Mkdir(store("d"), 0o755) }, nil},
		{"mkdir again", func() error { return os.Mkdir(store("d"), 0o755) }, unix.EEXIST},
		{"symlink", func() error { return os.Symlink("a", store("s")) }, nil},
		{"link", func() error { return os.Link(store("a"), store("l")) }, nil},
		{"link out", func() error { return os.Link(s.path("status"), store("x")) }, unix.EPERM},
		{"link to host", func() error { return os.Link(store("a"), s.path("work/x")) }, unix.EXDEV},
		{"rename noreplace", func() error {
			return unix.Renameat2(unix.AT_FDCWD, store("a"), unix.AT_FDCWD, store("l"), unix.RENAME_NOREPLACE)
		}, unix.EEXIST},
		{"rename exchange", func() error {
			return unix.Renameat2(unix.AT_FDCWD, store("a"), unix.AT_FDCWD, store("d"), unix.RENAME_EXCHANGE)
		}, unix.EINVAL},
		{"rename noreplace free", func() error {
			return unix.Renameat2(unix.AT_FDCWD, store("a"), unix.AT_FDCWD, store("d/b"), unix.RENAME_NOREPLACE)
		}, nil},
		{"rename to host", func() error { return os.Rename(store("d/b"), s.path("work/x")) }, unix.EXDEV},
		{"rmdir full", func() error { return unix.Rmdir(store("d")) }, unix.ENOTEMPTY},
		{"rmdir file", func() error { return unix.Rmdir(store("l")) }, unix.ENOTDIR},
		{"unlink dir", func() error { return unix.Unlink(store("d")) }, unix.EISDIR},
		{"chmod", func() error { return os.Chmod(store("d/b"), 0o600) }, nil},
		{"chown", func() error { return os.Chown(store("d/b"), 7, 8) }, nil},
		{"truncate", func() error { return os.Truncate(store("d/b"), 2) }, nil},
		{"mknod", func() error { return unix.Mknod(store("n"), unix.S_IFREG|0o644, 0) }, nil},
		{"mkfifo", func() error { return unix.Mkfifo(store("p"), 0o644) }, unix.EPERM},
		{"exclusive", func() error {
			_, err := os.OpenFile(store("n"), os.O_CREATE|os.O_EXCL, 0o644)
			return err
		}, unix.EEXIST},
		{"no space", func() error {
			f, err := os.OpenFile(store("n"), os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt([]byte("x"), 65<<20)
			return err
		}, unix.ENOSPC},
	}
	for _, c := range steps {
		if err := c.do(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}
	out, err := s.sh("dash", "cd store && cat d/b && stat -c ' %a %u %g %h %s' d/b && cat l && readlink s && echo more >> l && cat d/b && find . | sort | tr '\\n' ' '")
	if want := "te 600 7 8 2 2\ntea\ntemore\n. ./d ./d/b ./l ./n ./s "; err != nil || out != want {
		t.Errorf("%v\n%q, want\n%q", err, out, want)
	}
	s.do("handles 0")
}
