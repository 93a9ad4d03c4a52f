//go:build linux

package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hutch/fs/need"
)

// packed has hutch pack write a VM's archive to a file.
func (s *service) packed(vm string, flags ...string) string {
	s.t.Helper()
	name := filepath.Join(s.t.TempDir(), "archive")
	args := append([]string{"pack", "-o", name}, append(flags, vm)...)
	if out, err := s.command("hutch", args...).CombinedOutput(); err != nil {
		s.t.Fatalf("hutch pack: %v: %s", err, out)
	}
	return name
}

// TestPack moves a VM of gVisor to another service, which has nothing of the first.
func TestPack(t *testing.T) {
	t.Parallel()
	here, there := serve(t, false), serve(t, false)
	here.vm("dev")
	if out, status := here.sh("dev", "echo text >/workspace/f; echo more >/root/g; rm /etc/hosts; chmod 4755 /root/g; ln /root/g /root/h"); status != "0" {
		t.Fatal(out)
	}
	live := here.packed("dev")
	here.write("vm/dev/ctl", "stop\n")
	rest := here.packed("dev", "-snapshots", "-logs")
	for _, name := range []string{live, rest} {
		vm := filepath.Base(filepath.Dir(name))
		if out, err := there.command("hutch", "unpack", name, vm).CombinedOutput(); err != nil {
			t.Fatalf("hutch unpack: %v: %s", err, out)
		}
		there.write("vm/"+vm+"/ctl", "start\n")
		out, _ := there.sh(vm, "cat /workspace/f /root/h; test -e /etc/hosts || echo gone; stat -c %a%h /root/g")
		if out != "text\nmore\ngone\n47552\n" {
			t.Errorf("there %s has %q", vm, out)
		}
		there.write("vm/"+vm+"/ctl", "stop\n")
	}
}

// TestPackMemory has a suspended VM go on under another service.
func TestPackMemory(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	here, there := serve(t, false), serve(t, false)
	here.vm("dev")
	here.mkdir("vm/dev/exec/t")
	here.write("vm/dev/exec/t/ctl", counting)
	here.counts("dev")
	here.write("vm/dev/ctl", "suspend\n")
	name := here.packed("dev")
	if out, err := there.command("hutch", "unpack", name, "new").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "suspended: unpacked from dev") {
		t.Fatalf("hutch unpack: %v: %s", err, out)
	}
	there.signal(syscall.SIGKILL) // what was unpacked is on the disk
	there.start()
	there.write("vm/new/ctl", "resume\n")
	there.counts("new")
	there.write("vm/new/work/stop", "")
	whole, status := there.read("vm/new/exec/t/stdout"), there.read("vm/new/exec/t/wait")
	if !strings.HasPrefix(status, "7 ") {
		t.Errorf("the command ended %q", status)
	}
	counted(t, "from the start", whole)
	// The rest of it is a stopped VM.
	if out, err := there.command("hutch", "unpack", "-memory=false", name, "cold").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "stopped: unpacked from dev: without its memory") {
		t.Errorf("hutch unpack: %v: %s", err, out)
	}
}

// TestUnpackKilled kills hutchd in the midst of an archive: nothing comes of it.
func TestUnpackKilled(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.mkdir("vm/dev")
	if err := os.WriteFile(filepath.Join(s.state(), "vm/dev/work/f"), []byte(strings.Repeat("text", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(s.packed("dev"))
	if err != nil {
		t.Fatal(err)
	}
	s.mkdir("vm/new")
	f := s.open("vm/new/unpack", os.O_WRONLY)
	if _, err := f.WriteAt(data[:len(data)-100], 0); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.state(), "vm/new/.new-*")); len(left) != 1 {
		t.Errorf("under way are %v", left)
	}
	s.signal(syscall.SIGKILL)
	s.start()
	if status := s.read("vm/new/status"); !strings.HasPrefix(status, "created\n") {
		t.Errorf("what was cut off is %q", status)
	}
	poll(t, "no leftovers", func() bool {
		left, _ := filepath.Glob(filepath.Join(s.state(), "vm/new/.new-*"))
		return len(left) == 0
	})
	if entries, _ := os.ReadDir(filepath.Join(s.state(), "vm/new/work")); len(entries) > 0 {
		t.Errorf("made were %v", entries)
	}
}
