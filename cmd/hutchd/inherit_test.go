//go:build linux

package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestInherit starts hutchd with a file open, as a careless caller does, which
// nothing that hutchd starts may have.
func TestInherit(t *testing.T) {
	t.Parallel()
	s := newService(t, false)
	f, err := os.Create(filepath.Join(s.dir, "caller's"))
	if err != nil {
		t.Fatal(err)
	}
	s.as = func(cmd *exec.Cmd) { cmd.ExtraFiles = []*os.File{nil, f} }
	s.start()
	f.Close()
	s.as = func(*exec.Cmd) {}
	dir := fmt.Sprintf("/proc/%d/", s.cmd.Process.Pid)
	fds, _ := filepath.Glob(dir + "fd/*")
	found := 0
	for _, fd := range fds {
		if to, _ := os.Readlink(fd); to != f.Name() {
			continue
		}
		found++
		text, _ := os.ReadFile(dir + "fdinfo/" + filepath.Base(fd))
		_, rest, _ := strings.Cut(string(text), "flags:\t")
		word, _, _ := strings.Cut(rest, "\n")
		if flags, err := strconv.ParseInt(word, 8, 64); err != nil || flags&unix.O_CLOEXEC == 0 {
			t.Errorf("what hutchd starts has its descriptor %s, too: flags %s, %v", filepath.Base(fd), word, err)
		}
	}
	if found != 1 {
		t.Errorf("hutchd has the file %d times", found)
	}
}
