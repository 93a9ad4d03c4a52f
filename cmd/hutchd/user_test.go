//go:build linux

package main_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"hutch/fs/need"
)

// nobody is an ordinary user that every system has.
const nobody = 65534

// ordinary makes a service of an ordinary user, with a /dev/fuse that such a
// user may open, as it is on most machines.
func ordinary(t *testing.T) *service {
	t.Helper()
	need.Root(t)
	need.Tool(t, "fusermount3")
	nsenter := need.Tool(t, "nsenter")
	if unprivileged, err := os.ReadFile("/proc/sys/kernel/unprivileged_userns_clone"); err == nil && unprivileged[0] == '0' {
		need.Missing(t, "ordinary users may not make user namespaces")
	}
	s := newService(t, true)
	s.ns = strconv.Itoa(need.Namespace(t, s.dir))
	s.bin = copyPrograms(t, s)
	if err := os.Chown(s.dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	id := strconv.Itoa(nobody)
	s.as = func(cmd *exec.Cmd) {
		cmd.Args = append([]string{"nsenter", "-t", s.ns, "-m", "-S", id, "-G", id, "--wd=/", cmd.Path}, cmd.Args[1:]...)
		cmd.Path = nsenter
		if cmd.Env == nil {
			cmd.Env = os.Environ()
		}
		cmd.Env = append(cmd.Env, "HOME="+s.dir, "TMPDIR="+s.dir)
	}
	return s
}

// install copies a program to where anyone can run it. A program does that: a
// file that we write is open in whatever another test starts meanwhile, and
// cannot be run until that has come to its exec.
func install(t *testing.T, from, dir string) {
	t.Helper()
	if out, err := exec.Command(need.Tool(t, "install"), "-m", "755", from, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestOrdinaryUser interrupts readers, kills hutchd and starts it again, as a
// user without any power.
func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	s := ordinary(t)
	s.start()
	s.vm("dev")
	s.mkdir("vm/dev/exec/t")
	s.write("vm/dev/exec/t/ctl", "sh echo one; read x; echo got $x; exit 9\n")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		cat := s.user("sh", "-c", "exec cat <"+s.path("vm/dev/exec/t/stdout"))
		printed := printing(t, cat)
		printed.until("one\n")
		awaitRead(t, cat.Process.Pid)
		cat.Process.Signal(sig)
		printed.rest()
		if cat.Wait(); ended(cat) != sig.String() {
			t.Errorf("cat ended %s", ended(cat))
		}
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := s.signal(sig); err != nil && sig != syscall.SIGKILL {
			t.Errorf("hutchd: %v", err)
		}
		s.start()
		out, err := s.user("sh", "-c", "cd "+s.mount+"; cat status; cat vm/dev/exec/t/cmd").CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "dev running gvisor host\n") || !strings.Contains(string(out), "echo one") {
			t.Errorf("after %v: %v %s", sig, err, out)
		}
	}
	in := s.open("vm/dev/exec/t/stdin", os.O_WRONLY)
	defer in.Close()
	if _, err := in.WriteAt([]byte("two\n"), 0); err != nil {
		t.Fatal(err)
	}
	if out := s.read("vm/dev/exec/t/stdout"); out != "one\ngot two\n" {
		t.Errorf("the command gave %q", out)
	}
	if out, err := s.command("hutch", "run", "id", "-u").CombinedOutput(); err != nil || string(out) != "0\n" {
		t.Errorf("hutch run: %v %s", err, out)
	}
}

// TestUnheldLimit has a service that can make no control groups: who asks for a
// limit of memory is told that nothing holds a VM to it, or refused.
func TestUnheldLimit(t *testing.T) {
	t.Parallel()
	s := ordinary(t)
	s.start()
	if !strings.Contains(s.read("drivers"), "ram=unlimited (") {
		need.Missing(t, "this user can make control groups")
	}
	const told = "ram 128MiB is not enforced: "
	for _, words := range [][]string{{"run", "-ram", "128MiB", "true"}, {"create", "-ram", "128MiB", "dev"}, {"start", "dev"}} {
		out, err := s.command("hutch", words...).CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "hutch: warning: "+told) || !strings.Contains(string(out), "Delegate=yes") {
			t.Errorf("%q: %v %s", words, err, out)
		}
	}
	if out, err := s.command("hutch", "ps").Output(); err != nil || !strings.Contains(string(out), " / 128MiB (not enforced)") {
		t.Errorf("ps: %v %s", err, out)
	}
	s.signal(syscall.SIGTERM)
	s.start("-require-limits")
	if out, err := s.command("hutch", "run", "-ram", "128MiB", "true").CombinedOutput(); err == nil || !strings.Contains(string(out), "ram 128MiB cannot be enforced") {
		t.Errorf("where limits are required: %v %s", err, out)
	}
}
