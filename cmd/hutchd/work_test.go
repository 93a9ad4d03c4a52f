//go:build linux

package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs/need"
)

// TestWorkAttributes has the guest and the host read each other's extended
// attributes.
func TestWorkAttributes(t *testing.T) {
	t.Parallel()
	need.Tool(t, "setfattr")
	s := serve(t, true)
	s.vm("dev")
	if out, status := s.sh("dev", "cd /workspace; echo text >f; setfattr -n user.guest -v here f"); status != "0" {
		t.Fatalf("setfattr in the guest: %s %s", status, out)
	}
	p := make([]byte, 100)
	if n, err := unix.Getxattr(s.path("vm/dev/work/f"), "user.guest", p); string(p[:max(n, 0)]) != "here" {
		t.Errorf("the guest's attribute is %q, %v", p[:max(n, 0)], err)
	}
	if err := unix.Setxattr(s.path("vm/dev/work/f"), "user.host", []byte("there"), 0); err != nil {
		t.Error(err)
	}
	if out, status := s.sh("dev", "cd /workspace; getfattr --only-values -n user.host f"); out != "there" || status != "0" {
		t.Errorf("the host's attribute is %q, %s", out, status)
	}
}

// TestLocksDoNotPass has both sides lock one file: each gets its lock, and an
// event tells of it.
func TestLocksDoNotPass(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	s.vm("dev")
	f, err := os.OpenFile(s.path("vm/dev/work/db"), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	s.mkdir("vm/dev/exec/t")
	s.write("vm/dev/exec/t/ctl", "sh exec 9>>/workspace/db; echo x >&9; flock -n 9 && echo locked; sleep 1000\n")
	printing(t, s.command("hutch", "9p", "read", "vm/dev/exec/t/stdout")).until("locked\n")
	printing(t, s.command("hutch", "9p", "read", "vm/dev/events")).until(`"event":"locks"`)
}

// TestAllowOther has a program that dropped its privileges work in a
// workspace, and keeps it from what is not its own.
func TestAllowOther(t *testing.T) {
	t.Parallel()
	need.Root(t)
	setpriv := need.Tool(t, "setpriv")
	s := serve(t, true, "-allow-other")
	for dir := s.path("vm"); dir != os.TempDir(); dir = filepath.Dir(dir) {
		if dir != s.mount {
			os.Chmod(dir, 0o755)
		}
	}
	s.vm("dev")
	if err := os.Chmod(s.path("vm/dev/work"), 0o777); err != nil {
		t.Fatal(err)
	}
	s.sh("dev", "chmod 1777 /tmp; echo >/tmp/old; chmod 666 /tmp/old")
	s.write("vm/dev/env/TOKEN", "secret")
	s.write("profiles/mine.toml", "# secret\n")
	cmd := s.user(setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c",
		`cd $mnt/vm/dev && head -n 1 status && test $(wc -l <status) -le 2 && ! cat mcp/servers && mkdir work/d && echo made >work/d/f && cat work/d/f && stat -c %u work/d/f && ! echo kill >>ctl && ! cat config && ! cat env/TOKEN && ! ls env && ! echo x >root/tmp/new && ! echo more >>root/tmp/old && ! cat ../../profiles/mine.toml && ! ls root && ! ls log && ! cat log/exec && ! cat mcp/calls && ! cat db/mcp_calls.jsonl && ! cat ../../events && ! cat events && ! ls exec && ! ls snap && ! cat timeline && ! cat ../../log/service && ! echo x >>work/mine`)
	os.WriteFile(s.path("vm/dev/work/mine"), []byte("of root\n"), 0o600)
	cmd.Env = append(os.Environ(), "mnt="+s.mount)
	out, err := cmd.Output()
	if err != nil || string(out) != "running\nmade\n65534\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// TestWorkKept has the host know files that were the same for a while, of
// which the kernel keeps what it knows, and the guest then change each: who
// has read that the guest's command ended sees what it did.
func TestWorkKept(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	s.mkdir("vm/dev")
	const files = 40
	name := func(i int) string { return s.path(fmt.Sprintf("vm/dev/work/f%02d", i)) }
	for i := range files {
		if err := os.WriteFile(name(i), []byte("short\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	s.write("vm/dev/ctl", "start\n")
	fi, err := os.Stat(name(files - 1))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(fi.ModTime().Add(3 * time.Second))) // its age is what matters
	for i := range files {
		os.Stat(name(i))
		if fi, err := os.Stat(name(i)); err != nil || fi.Size() != 6 {
			t.Fatalf("%s: %v, %v", name(i), fi, err)
		}
		if out, status := s.sh("dev", fmt.Sprintf("echo and longer >>/workspace/f%02d", i)); status != "0" {
			t.Fatalf("exec: %s %s", status, out)
		}
		if fi, err := os.Stat(name(i)); err != nil || fi.Size() != 17 {
			t.Fatalf("%s: %v, %v", name(i), fi, err)
		}
	}
}
