//go:build linux

package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs/inotify"
	"hutch/fs/need"
)

// TestKillAtStep kills hutchd as soon as the disk shows that a verb has come
// to a step. Whatever of the rest it still did, the next one has each VM whole.
func TestKillAtStep(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	s := serve(t, false)
	s.vm("dev")
	if err := os.MkdirAll(filepath.Join(s.state(), "vm/dev/snap"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.mkdir("vm/dev/exec/t")
	s.write("vm/dev/exec/t/ctl", "sh n=0; until test -e /workspace/stop; do n=$((n+1)); echo line $n; echo $n >/workspace/n; sleep 0.01; done; exit 7\n")
	for _, try := range []struct{ verb, folder, step string }{
		{"snap one", "dev/snap", ".new-"},
		{"snap two", "dev/snap", "two"},
		{"suspend", "dev/machine", "control"}, // the pause
		{"suspend", "dev", ".new-"},           // the checkpoint
		{"suspend", "dev", "saved"},           // decided
		{"suspend\nresume", "dev", "restoring"},
		{"suspend\nresume", "dev", "machine"}, // the restore
		{"fork copy", "", ".gone-"},
		{"fork copy", "", "copy"},
		{"fork -live copy", "", ".gone-"},
		{"fork -live copy", "dev/machine", "control"},
		{"fork -live copy", "", "copy"},
	} {
		s.killAt(try.verb, try.folder, try.step)
		state, _, _ := strings.Cut(s.read("vm/dev/status"), "\n")
		t.Logf("%q killed at %s: %s", try.verb, try.step, state)
		switch {
		case state == "suspended" && strings.HasPrefix(try.verb, "suspend"):
			s.write("vm/dev/ctl", "resume\n")
		case state != "running":
			t.Fatalf("%q killed at %s: %s", try.verb, try.step, s.read("vm/dev/status"))
		}
		s.counts("dev")
		s.copyGone(try.verb)
	}
	if list := s.read("vm/dev/exec/t/status"); !strings.HasPrefix(list, "running") {
		t.Errorf("the command is %q", list)
	}
	s.write("vm/dev/work/stop", "")
	counted(t, "after all", s.read("vm/dev/exec/t/stdout"))
	for name := range strings.SplitSeq("one two", " ") { // there or not, but never half
		if _, err := os.Stat(filepath.Join(s.state(), "vm/dev/snap", name)); err == nil && !strings.Contains(s.read("vm/dev/snap/"+name+"/info"), "taken") {
			t.Errorf("snapshot %s is half there", name)
		}
	}
	poll(t, "end of what was half made", func() bool {
		for _, pattern := range []string{".[a-z]*", "dev/.[a-z]*", "dev/snap/.[a-z]*", "dev/saved", "dev/restoring"} {
			if left, _ := filepath.Glob(filepath.Join(s.state(), "vm", pattern)); len(left) > 0 {
				return false
			}
		}
		return true
	})
}

// copyGone removes a copy, which is stopped, or runs whole, or is not there.
func (s *service) copyGone(verb string) {
	s.t.Helper()
	for line := range strings.Lines(s.read("status")) {
		f := strings.Fields(line)
		if f[0] != "copy" {
			continue
		}
		switch f[1] {
		case "running":
			s.counts("copy")
			s.write("vm/copy/ctl", "kill\n")
		case "stopped":
		default:
			s.t.Errorf("%q: the copy is %s", verb, s.read("vm/copy/status"))
		}
		if err := s.client().Remove("vm/copy"); err != nil {
			s.t.Errorf("%q: %v (%s)", verb, err, s.why())
		}
	}
}

// killAt tells vm/dev verb, kills hutchd when a name that starts with step
// appears in a folder of vm, and starts the next.
func (s *service) killAt(verb, folder, step string) {
	s.t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		s.t.Fatal(err)
	}
	watch := os.NewFile(uintptr(fd), "inotify")
	defer watch.Close()
	dir := filepath.Join(s.state(), "vm", folder)
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_OPEN); err != nil {
		s.t.Fatal(err)
	}
	teller := s.command("hutch", "9p", "write", "vm/dev/ctl")
	teller.Stdin = strings.NewReader(verb + "\n")
	if err := teller.Start(); err != nil {
		s.t.Fatal(err)
	}
	watch.SetReadDeadline(time.Now().Add(limit))
	p := make([]byte, 64<<10)
	for seen := false; !seen; {
		n, err := watch.Read(p)
		if err != nil {
			s.t.Fatalf("%q does not come to %s: %v (%s)", verb, step, err, s.why())
		}
		seen = named(p[:n], step)
	}
	s.signal(syscall.SIGKILL)
	teller.Wait()
	s.start()
}

// named says whether one of the events of inotify in p is of such a name.
func named(p []byte, start string) bool {
	for e := range inotify.Events(p) {
		if strings.HasPrefix(e.Name, start) {
			return true
		}
	}
	return false
}
