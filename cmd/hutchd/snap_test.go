//go:build linux

package main_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"hutch/fs/need"
)

// difference asks vm/dev/snap/diff.
func (s *service) difference(of string) string {
	s.t.Helper()
	f := s.open("vm/dev/snap/diff", os.O_RDWR)
	defer f.Close()
	if _, err := f.Write([]byte(of + "\n")); err != nil {
		s.t.Fatalf("%v (%s)", err, s.why())
	}
	text, err := io.ReadAll(f)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// run runs a line in the VM dev and wants it to end well.
func (s *service) run(line string) string {
	s.t.Helper()
	out, status := s.sh("dev", line)
	if status != "0" {
		s.t.Fatalf("%s: ended %s: %s", line, status, out)
	}
	return out
}

// shell runs a line on the host as the service's user, in the mount.
func (s *service) shell(line string) string {
	s.t.Helper()
	out, err := s.user("sh", "-ec", "cd "+s.mount+"; "+line).CombinedOutput()
	if err != nil {
		s.t.Errorf("%s: %v: %s", line, err, out)
	}
	return string(out)
}

// A guest that writes two files in turn, one in its workspace and one
// elsewhere, has them in step in every snapshot, and never notices.
func TestSnapshotConsistent(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.vm("dev")
	s.mkdir("vm/dev/exec/t")
	s.write("vm/dev/exec/t/ctl", "sh i=0; while :; do i=$((i+1)); echo $i >>/workspace/a; echo $i >>/root/b; test $i = 5 && echo ready; done\n")
	s.ready("vm/dev/exec/t")
	last, size := 0, int64(0)
	for i := range 8 {
		poll(t, "further line of the guest", func() bool { // which has its time when the machine has some for it
			fi, err := os.Stat(filepath.Join(s.state(), "vm/dev/work/a"))
			return err == nil && fi.Size() > size
		})
		name := fmt.Sprintf("vm/dev/snap/s%d", i)
		s.mkdir(name)
		a, b := s.read(name+"/work/a"), s.read(name+"/layer/root/b")
		na, nb := strings.Count(a, "\n"), strings.Count(b, "\n")
		if na != nb && na != nb+1 || !strings.HasPrefix(a, b) || !strings.HasSuffix(a, fmt.Sprintf("%d\n", na)) {
			t.Errorf("snapshot %d has %d lines and %d, at the end %.20q and %.20q", i, na, nb, a[max(0, len(a)-20):], b[max(0, len(b)-20):])
		}
		if na <= last {
			t.Errorf("%d lines after %d: the guest stood still", na, last)
		}
		last, size = na, int64(len(a))
		t.Logf("%d lines; %s", na, strings.ReplaceAll(s.read(name+"/info"), "\n", " "))
	}
	if status := s.read("vm/dev/exec/t/status"); !strings.HasPrefix(status, "running\n") {
		t.Errorf("the command is %s", status)
	}
}

// A hutchd that is killed while it takes snapshots leaves the guest going on,
// and of the snapshot all or nothing.
func TestSnapshotKilled(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	s := serve(t, false)
	s.vm("dev")
	s.mkdir("vm/dev/snap/first")
	s.run("i=0; while test $i -lt 300; do i=$((i+1)); echo $i >f$i; done")
	s.mkdir("vm/dev/exec/t")
	s.write("vm/dev/exec/t/ctl", "sh date +%N >changing; echo ready; while :; do date +%N >changing; done\n")
	s.ready("vm/dev/exec/t") // with all its files
	snaps := filepath.Join(s.state(), "vm/dev/snap")
	for round := range 6 {
		begun := watch(t, snaps)
		taken := make(chan error, 1)
		c := s.dial()
		go func() { taken <- c.Mkdir(fmt.Sprintf("vm/dev/snap/s%d", round), 0o755) }()
		begun()
		for range round * 15 { // the later rounds kill it later on its way
			s.read("vm/dev/status")
		}
		s.signal(syscall.SIGKILL)
		c.Close()
		<-taken
		s.start()
		if status := s.read("status"); status != "dev running gvisor host\n" {
			t.Fatalf("after the restart the status is %q", status)
		}
		s.run("true") // or it is frozen
		for _, name := range strings.Fields(s.names("vm/dev/snap")) {
			if name == "diff" || name == "first" {
				continue
			}
			if n := strings.Fields(s.names("vm/dev/snap/" + name + "/work")); len(n) != 301 {
				t.Errorf("snapshot %s has %d files", name, len(n))
			}
		}
	}
	if err := s.signal(syscall.SIGTERM); err != nil { // which waits for what is being removed
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(snaps, ".*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	s.start()
}

// watch returns a function that waits until something has been made in dir.
func watch(t *testing.T, dir string) func() {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		defer f.Close()
		if _, err := f.Read(make([]byte, 4096)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRevert reverts a VM that runs, its image's files included, and looks
// at it in every way.
func TestRevert(t *testing.T) {
	t.Parallel()
	t.Run("root", func(t *testing.T) {
		t.Parallel()
		revert(t, serve(t, true))
	})
	t.Run("user", func(t *testing.T) {
		t.Parallel()
		s := ordinary(t)
		s.start()
		revert(t, s)
	})
}

func revert(t *testing.T, s *service) {
	s.vm("dev")
	s.run("echo one >f; mkdir d; echo deep >d/g; ln d/g d/h; ln -s f link; chmod 751 d; chmod 0 d/g; echo x >/root/x")
	s.mkdir("vm/dev/snap/before")
	s.run("echo two >f; rm -r d; echo new >'two words'; rm /etc/passwd; chmod 600 /root/x; mkdir /opt/tool; echo bin >/opt/tool/bin")
	held, err := s.client().Open("vm/dev/work/f", os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	s.write("vm/dev/ctl", "snap after\n")
	want := "added layer/opt/tool/\nadded layer/opt/tool/bin\n"
	got := s.difference("before after")
	for _, line := range []string{want, "mode layer/root/x 0644 0600\n", "removed layer/etc/passwd\n", "removed work/d/\n", "removed work/d/g\n", "changed work/f\n", "added \"work/two words\"\n"} {
		if !strings.Contains(got, line) {
			t.Errorf("the difference lacks %q:\n%s", line, got)
		}
	}
	if strings.Contains(got, "link") {
		t.Errorf("the difference is\n%s", got)
	}
	if out := s.shell("cat vm/dev/work/f; cp vm/dev/snap/before/work/f vm/dev/work/old; cat vm/dev/work/old; cp -r vm/dev/snap/after/layer/opt/tool vm/dev/work/; cat vm/dev/work/tool/bin; readlink vm/dev/snap/before/work/link"); out != "two\none\nbin\nf\n" {
		t.Errorf("on the mount: %q", out)
	}
	if out, err := s.command("hutch", "9p", "read", "vm/dev/snap/before/work/f").CombinedOutput(); err != nil || string(out) != "one\n" {
		t.Errorf("over 9P: %v %q", err, out)
	}
	s.write("vm/dev/ctl", "revert before\n")
	if out := s.run("cat f d/h link; stat -c '%a %h' d/g d; cat /root/x; stat -c %a /root/x; wc -l </etc/passwd; ls /opt/tool 2>&1 || true"); !strings.HasPrefix(out, "one\ndeep\none\n0 2\n751 ") || !strings.Contains(out, "\nx\n644\n") || !strings.Contains(out, "No such file") {
		t.Errorf("after the revert the guest sees %q", out)
	}
	if out := s.shell("cat vm/dev/work/f; ls vm/dev/work; echo mine >vm/dev/work/mine"); out != "one\nd\nf\nlink\n" {
		t.Errorf("after the revert the mount has %q", out)
	}
	if out := s.run("cat mine"); out != "mine\n" {
		t.Errorf("the guest sees %q", out)
	}
	if got := s.difference("before"); strings.Contains(got, "work/f") || !strings.Contains(got, "added work/mine\n") {
		t.Errorf("difference to what there is now:\n%s", got)
	}
	if text := s.call("dev", "snapshots_revert", `{"path":"f","snapshot":"after"}`); !strings.Contains(text, "restored f as it was in after") || s.run("cat f") != "two\n" {
		t.Errorf("a tool's revert of one file: %s", text)
	}
	if text := s.call("dev", "snapshots_create", `{"name":"tool"}`); !strings.Contains(text, "took mcp-tool") || !strings.Contains(s.names("vm/dev/snap"), "mcp-tool") {
		t.Errorf("a tool's snapshot: %s", text)
	}
	if text := s.call("dev", "snapshots_delete", `{"snapshot":"after"}`); !strings.Contains(text, "was not taken by a tool") {
		t.Errorf("a tool deletes another's snapshot: %s", text)
	}
	p := make([]byte, 10)
	if n, _ := held.ReadAt(p, 0); string(p[:n]) != "two\n" {
		t.Errorf("the file that was open has %q", p[:n])
	}
	s.write("vm/dev/ctl", "stop\nrevert after\nstart\n")
	if out := s.run("cat f; cat /opt/tool/bin; test -e /etc/passwd || echo gone"); out != "two\nbin\ngone\n" {
		t.Errorf("after the second revert the guest sees %q", out)
	}
}
