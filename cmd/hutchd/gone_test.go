//go:build linux

package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hutch/fs/need"
)

// descriptors returns what hutchd has open, but for what comes and goes.
func (s *service) descriptors() []string {
	s.t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid)
	list, err := os.ReadDir(dir)
	if err != nil {
		s.t.Fatal(err)
	}
	var open []string
	for _, fd := range list {
		if to, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil && strings.HasPrefix(to, s.state()+"/vm/") {
			open = append(open, strings.TrimPrefix(to, s.state()))
		}
	}
	slices.Sort(open)
	return open
}

// TestDescriptorsOfTheGone has many VMs looked at through the mount, which
// then go behind the kernel's back: nothing of them stays open.
func TestDescriptorsOfTheGone(t *testing.T) {
	t.Parallel()
	many := 20
	if os.Getenv("HUTCH_TEST_SLOW") != "" {
		many = 300
	}
	named := func(s *service, i int) (string, func()) {
		name := fmt.Sprint("vm", i)
		s.mkdir("vm/" + name)
		return name, func() {}
	}
	for how, begin := range map[string]func(s *service, i int) (name string, end func()){
		"purge": named,
		"9p rm": func(s *service, i int) (string, func()) {
			name, _ := named(s, i)
			return name, func() {
				if err := s.client().Remove("vm/" + name); err != nil {
					t.Error(err)
				}
			}
		},
		"anonymous": func(s *service, _ int) (string, func()) {
			f := s.open("vm/clone", os.O_RDWR)
			p := make([]byte, 16)
			n, _ := f.ReadAt(p, 0)
			return strings.TrimSpace(string(p[:n])), func() { f.Close() }
		},
	} {
		t.Run(how, func(t *testing.T) {
			s := serve(t, true)
			for i := range many {
				name, end := begin(s, i)
				s.lookAt(name)
				end()
			}
			s.write("ctl", "purge all\n")
			poll(t, "end of descriptors", func() bool { return len(s.descriptors()) == 0 })
		})
	}
}

// TestStandInTheGone has a process stand in the folder of a VM that goes: it
// finds nothing there, and nothing of the VM comes back.
func TestStandInTheGone(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	s.mkdir("vm/dev")
	s.lookAt("dev")
	dir, err := os.Open(s.path("vm/dev"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := s.client().Remove("vm/dev"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"work", "env", "root", "snap"} {
		fd, err := unix.Openat(int(dir.Fd()), name, unix.O_PATH, 0)
		unix.Close(fd)
		if (name == "work" || name == "env") && err != unix.ENOENT {
			t.Errorf("%s of a VM that is gone: %v", name, err)
		}
	}
	if list, err := os.ReadDir(filepath.Join(s.state(), "vm")); err != nil || len(list) > 0 {
		t.Errorf("in the state folder: %v, %v", list, err)
	}
}

// lookAt looks at a VM's files through the mount.
func (s *service) lookAt(name string) {
	s.t.Helper()
	dir := s.path("vm/" + name)
	os.WriteFile(dir+"/work/f", nil, 0o644)
	for _, f := range []string{"status", "config", "env", "work/f", "snap", "log/serial"} {
		if _, err := os.Stat(dir + "/" + f); err != nil {
			s.t.Error(err)
		}
	}
	for _, d := range []string{"", "work", "env"} {
		if _, err := os.ReadDir(dir + "/" + d); err != nil {
			s.t.Error(err)
		}
	}
}

// TestNamesStay has the kernel not ask again for names that lead to the same
// folder always, and ask for those of another VM.
func TestNamesStay(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	requests := func() (n int) {
		s.t.Helper()
		_, text, _ := strings.Cut(s.read("metrics"), "\nhutch_fuse_requests_total ")
		if _, err := fmt.Sscan(text, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	number := func() uint64 {
		t.Helper()
		var st unix.Stat_t
		if err := unix.Stat(s.path("vm/dev/exec"), &st); err != nil {
			t.Fatal(err)
		}
		return st.Ino
	}
	s.mkdir("vm/dev")
	old, before := number(), requests()
	for range 100 {
		number()
	}
	if n := requests() - before; n > 210 { // for dev, and what exec is like
		t.Errorf("100 looks at vm/dev/exec are %d requests", n)
	}
	if err := s.client().Remove("vm/dev"); err != nil {
		t.Fatal(err)
	}
	s.mkdir("vm/dev")
	if number() == old {
		t.Error("exec of the VM that went is shown for that of the new one")
	}
}

// TestRootsApart looks through the mount at files of guests whose numbers are
// those of other files: of another VM's, of one that was removed, and of the
// VM's machine before.
func TestRootsApart(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	look := func(vm, name, want string) (number uint64) {
		t.Helper()
		file := s.path("vm/" + vm + "/root/etc/" + name)
		text, err := os.ReadFile(file)
		if got := strings.TrimSpace(string(text)); err != nil || got != want {
			t.Errorf("%s of %s is %q, %v; want %q", name, vm, got, err, want)
		}
		var st unix.Stat_t
		unix.Stat(file, &st)
		return st.Ino
	}
	for _, vm := range []string{"one", "two"} {
		s.vm(vm)
		s.sh(vm, "echo "+vm+" >/etc/who")
	}
	if look("one", "who", "one") == look("two", "who", "two") {
		t.Error("files of two VMs have one number")
	}
	if err := os.WriteFile(s.path("vm/one/root/etc/who"), []byte("written\n"), 0); err != nil {
		t.Error(err)
	}
	look("one", "who", "written")
	look("two", "who", "two")
	s.sh("two", "ln /etc/who /etc/other; rm /etc/who")
	look("two", "other", "two")
	s.write("vm/one/ctl", "kill\nstart\n")
	s.sh("one", "echo again >/etc/who")
	look("one", "who", "again")
}

// TestMovedInRoot looks at once at what it moved in a guest's root.
func TestMovedInRoot(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	s := serve(t, true)
	s.vm("dev")
	script := `set -e; cd "$1"; mkdir -p a/b; echo text >a/b/f; cat a/b/f; mv a/b/f a/b/g; cat a/b/g; mv a c; cat c/b/g; sed -i s/text/new/ c/b/g; cat c/b/g; rm -r c; ls`
	dir := s.path("vm/dev/root/etc/moved")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := s.user("sh", "-c", script, "sh", dir).CombinedOutput(); string(out) != "text\ntext\ntext\nnew\n" {
		t.Errorf("%s, %v", out, err)
	}
}
