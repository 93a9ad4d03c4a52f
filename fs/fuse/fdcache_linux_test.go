package fuse

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// changes are what can be asked of an open file.
var changes = []struct {
	what string
	do   func(fd int) error
}{
	{"fstat", func(fd int) error { return unix.Fstat(fd, new(unix.Stat_t)) }},
	{"fchmod", func(fd int) error { return unix.Fchmod(fd, 0o600) }},
	{"fchown", func(fd int) error { return unix.Fchown(fd, os.Getuid(), os.Getgid()) }},
	{"futimens", func(fd int) error { return unix.Futimes(fd, []unix.Timeval{{Sec: 1}, {Sec: 2}}) }},
	{"ftruncate", func(fd int) error { return unix.Ftruncate(fd, 2) }},
	{"fsync", unix.Fsync},
	{"reopen", func(fd int) error {
		again, err := unix.Open(procPath(fd), unix.O_RDWR, 0)
		unix.Close(again)
		return err
	}},
	{"chmod of the descriptor", func(fd int) error { return unix.Chmod(procPath(fd), 0o640) }},
	{"truncate of the descriptor", func(fd int) error { return unix.Truncate(procPath(fd), 1) }},
}

// An open file is whole when its name has gone to another, or is gone.
func TestHeldFile(t *testing.T) {
	s := serving(t)
	for _, c := range []struct {
		how  string
		lose func(client, guest string) error
	}{
		{"removed here", func(client, _ string) error { return os.Remove(client) }},
		{"removed by the guest", func(_, guest string) error { return os.Remove(guest) }},
		{"renamed by the guest", func(_, guest string) error { return os.Rename(guest, guest+".old") }},
		{"replaced by the guest", func(_, guest string) error {
			os.WriteFile(guest+".new", []byte("other"), 0o644)
			return os.Rename(guest+".new", guest)
		}},
	} {
		for _, new := range []bool{true, false} {
			name := fmt.Sprintf("%v %v", c.how, new)
			client, guest := s.path("work/"+name), filepath.Join(s.work, name)
			flags := unix.O_RDWR
			if new {
				flags |= unix.O_CREAT | unix.O_EXCL
			} else if err := os.WriteFile(guest, []byte("text"), 0o644); err != nil {
				t.Fatal(err)
			}
			fd, err := unix.Open(client, flags, 0o644)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.lose(client, guest); err != nil {
				t.Fatal(err)
			}
			for _, change := range changes {
				if err := change.do(fd); err != nil {
					t.Errorf("%s: %s: %v", name, change.what, err)
				}
			}
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil || st.Mode&0o777 != 0o640 || st.Size != 1 {
				t.Errorf("%s: %v, mode %o, size %d", name, err, st.Mode, st.Size)
			}
			unix.Close(fd)
			if text, _ := os.ReadFile(guest); strings.HasPrefix(c.how, "replaced") && string(text) != "other" {
				t.Errorf("%s: the other file is %q", name, text)
			}
		}
	}
	s.do("open 0")
}

// The same while the guest replaces it all the time.
func TestHeldFileBeingReplaced(t *testing.T) {
	s := serving(t)
	guest := filepath.Join(s.work, "f")
	os.WriteFile(guest, []byte("text"), 0o644)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				os.WriteFile(guest+"~", []byte("text"), 0o644)
				os.Rename(guest+"~", guest)
			}
		}
	})
	failed := map[string]int{}
	for range 200 {
		fd, err := unix.Open(s.path("work/f"), unix.O_RDWR, 0)
		if err != nil {
			failed["open"]++
			continue
		}
		for _, change := range changes {
			if err := change.do(fd); err != nil {
				failed[change.what]++
			}
		}
		unix.Close(fd)
	}
	if len(failed) > 0 {
		t.Errorf("failed: %v", failed)
	}
}

// Who stands in a directory stays in it when the guest renames it or one
// above, or puts another in its place.
func TestHeldDirectory(t *testing.T) {
	for name, move := range map[string]func(dir string) error{
		"renamed": func(dir string) error { return os.Rename(dir+"/a/b", dir+"/b") },
		"above":   func(dir string) error { return os.Rename(dir+"/a", dir+"/other") },
		"replaced": func(dir string) error {
			os.Mkdir(dir+"/c", 0o755)
			return unix.Renameat2(unix.AT_FDCWD, dir+"/c", unix.AT_FDCWD, dir+"/a/b", unix.RENAME_EXCHANGE)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serving(t)
			if err := os.MkdirAll(filepath.Join(s.work, "a/b/sub"), 0o755); err != nil {
				t.Fatal(err)
			}
			os.WriteFile(filepath.Join(s.work, "a/b/f"), []byte("text\n"), 0o644)
			cmd := s.command("dash")
			cmd.Dir = s.path("work/a/b")
			in, _ := cmd.StdinPipe()
			out := &screen{t: t}
			cmd.Stdout, cmd.Stderr = out, out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(in, "echo begun yes end")
			out.word("begun")
			if err := move(s.work); err != nil {
				t.Fatal(err)
			}
			os.Stat(s.path("work/a/b")) // the kernel is told
			fmt.Fprintln(in, "ls -a; cat f; echo new >g && cat g; mkdir d && rmdir d; chmod 700 . && ls sub; mv g sub/h && cat sub/h; rm f")
			in.Close()
			cmd.Wait()
			if want := "begun yes end\n.\n..\nf\nsub\ntext\nnew\nnew\n"; out.String() != want {
				t.Errorf("in the directory:\n%s, want\n%s", out, want)
			}
		})
	}
}

// A file that was looked at does not take room on the disk for long after it
// was removed.
func TestHeldFileIsLetGo(t *testing.T) {
	s := serving(t)
	name := filepath.Join(s.work, "looked-at")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.path("work/looked-at")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	dir := fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid)
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		fds, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		has := slices.ContainsFunc(fds, func(e os.DirEntry) bool {
			to, _ := os.Readlink(filepath.Join(dir, e.Name()))
			return strings.Contains(to, "looked-at")
		})
		if !has {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the server has it still")
		}
	}
}

// However many directories are looked at, few are held, and each is found when
// it is not.
func TestHeldDirectoriesAreBounded(t *testing.T) {
	s := serving(t)
	const many = 1500
	for i := range many {
		if err := os.MkdirAll(filepath.Join(s.work, fmt.Sprintf("d%04d/e", i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var before unix.Rlimit
	if err := unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: before.Max}, nil); err != nil {
		t.Fatal(err)
	}
	var kept []*os.File
	for i := range many {
		f, err := os.OpenFile(s.path(fmt.Sprintf("work/d%04d/e", i)), unix.O_PATH, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		kept = append(kept, f)
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
	if err != nil || len(fds) > 100 {
		t.Errorf("the server has %d descriptors, %v", len(fds), err)
	}
	for _, f := range kept {
		if err := unix.Mkdirat(int(f.Fd()), "x", 0o755); err != nil {
			t.Fatalf("%s: %v", f.Name(), err)
		}
	}
}

// A path that is longer than the kernel takes at once is reached as by anyone.
func TestDeepDirectory(t *testing.T) {
	s := serving(t)
	name := strings.Repeat("n", 250)
	at, err := unix.Open(s.work, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	for range 300 {
		if err == nil {
			err = unix.Mkdirat(at, name, 0o755)
		}
		var next int
		if err == nil {
			next, err = unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		}
		unix.Close(at)
		at = next
	}
	unix.Close(at)
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.sh("dash", "cd work && find . -type d | wc -l && rm -r "+name+" && ls")
	if err != nil || strings.TrimSpace(out) != "301" {
		t.Errorf("%v: %.300s", err, out)
	}
}
