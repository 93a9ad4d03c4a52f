//go:build linux

package main_test

import (
	"os/exec"
	"strings"
	"testing"

	"hutch/fs/need"
)

// TestDiod reads the tree with the clients of diod, over TCP.
func TestDiod(t *testing.T) {
	t.Parallel()
	cat, ls := need.Tool(t, "diodcat"), need.Tool(t, "diodls")
	s := newService(t, false)
	s.addr = "tcp!127.0.0.1!0"
	s.start()
	at := strings.ReplaceAll(strings.TrimPrefix(s.addr, "tcp!"), "!", ":")
	s.vm("dev")
	s.write("vm/dev/work/hello", "hello\n")
	s.mkdir("vm/dev/exec/t")
	s.write("vm/dev/exec/t/ctl", "sh seq 100000; exit 3\n")
	diod := func(cmd *exec.Cmd) string {
		t.Helper()
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%v: %v %s", cmd.Args, err, stderr(err))
		}
		return string(out)
	}
	for name, want := range map[string]string{
		"version": s.read("version"), "vm/dev/config": s.read("vm/dev/config"), "vm/dev/work/hello": "hello\n", "README": s.read("README"),
		"vm/dev/exec/t/stdout": s.read("vm/dev/exec/t/stdout"), "vm/dev/root/workspace/hello": "hello\n",
	} {
		if out := diod(s.user(cat, "-s", at, "-a", "/", name)); out != want {
			t.Errorf("diodcat %s: %d bytes %.100q, want %d", name, len(out), out, len(want))
		}
	}
	if out := diod(s.user(cat, "-s", at, "-a", "/", "vm/dev/exec/t/wait")); !strings.HasPrefix(out, "3 ") {
		t.Errorf("diodcat wait: %q", out)
	}
	if out := diod(s.user(ls, "-s", at, "-a", "/", "-l")); !strings.Contains(out, " README\n") || !strings.Contains(out, "drwxr-xr-x") {
		t.Errorf("diodls: %s", out)
	}
	if out := diod(s.user(ls, "-s", at, "-a", "/", "vm/dev/exec")); out != "clone\nt\n" {
		t.Errorf("diodls: %s", out)
	}
}
