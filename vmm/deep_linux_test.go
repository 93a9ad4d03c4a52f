package vmm_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"hutch/vmm"
)

// A guest that makes folders deep in each other can be snapshot, forked,
// reverted, measured and removed like any other.
func TestDeepFolders(t *testing.T) {
	const depth = 3000
	w := newWorld(t)
	v := w.running("dev")
	fd, err := unix.Open(v.WorkDir(), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	for i := 0; i < depth && err == nil; i++ {
		if err = unix.Mkdirat(fd, "folder", 0o755); err == nil {
			next := -1
			next, err = unix.Openat(fd, "folder", unix.O_RDONLY|unix.O_DIRECTORY, 0)
			unix.Close(fd)
			fd = next
		}
	}
	unix.Close(fd)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Snap(w.limit(), "one"); err != nil {
		t.Fatal(err)
	}
	if err := v.Fork(w.limit(), "copy"); err != nil {
		t.Fatal(err)
	}
	if err := v.Revert(w.limit(), "one"); err != nil {
		t.Fatal(err)
	}
	w.is(v, vmm.Running)
	if err := v.DropSnapshot(w.limit(), "one"); err != nil {
		t.Fatal(err)
	}
	if err := v.Kill(w.limit()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dev", "copy"} {
		dir := w.lookup(name).Dir()
		if err := w.table.Remove(w.limit(), name); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is still there", dir)
		}
	}
}
