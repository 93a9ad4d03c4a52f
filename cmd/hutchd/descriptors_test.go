//go:build linux

package main_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFewDescriptors has clients take every descriptor that hutchd may have,
// while a guest connects to its ports. When they have closed their files, all
// is as before: the guest's port, and starts.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.vm("first")
	s.mkdir("vm/second")
	s.write("vm/first/work/x", "x")
	const call = `hutch-relay call local__echo '{"text":"here"}'`
	s.mkdir("vm/first/exec/t")
	s.write("vm/first/exec/t/ctl", "sh read x; timeout 1 "+call+"\n")
	in := s.open("vm/first/exec/t/stdin", os.O_WRONLY)
	few := unix.Rlimit{Cur: 256, Max: 256}
	if err := unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_NOFILE, &few, nil); err != nil {
		t.Fatal(err)
	}
	var held []*remoteFile
	var err error
	for err == nil && len(held) < 300 {
		var f *remoteFile
		if f, err = s.client().Open("vm/first/work/x", os.O_RDONLY); err == nil {
			held = append(held, f)
		}
	}
	if err == nil {
		t.Fatalf("%d open files in %d descriptors", len(held), few.Cur)
	}
	in.Write([]byte("\n"))
	in.Close()
	if out := s.read("vm/first/exec/t/stdout"); strings.Contains(out, "here") {
		t.Errorf("answered without a descriptor: %q", out)
	}
	if err := s.tryWrite("vm/second/ctl", "start\n"); err == nil {
		t.Error("started without a descriptor")
	}
	for _, f := range held {
		f.Close()
	}
	s.write("vm/second/ctl", "start\n")
	for _, vm := range []string{"first", "second"} {
		if out, status := s.sh(vm, call); !strings.Contains(out, "here") {
			t.Errorf("%s: %q, %s", vm, out, status)
		}
	}
}
