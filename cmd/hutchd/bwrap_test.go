//go:build linux

package main_test

import (
	"os/exec"
	"testing"
)

// TestSandboxInside has a guest make a sandbox of its own, as agents do, as root and as
// an ordinary user.
func TestSandboxInside(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.vm("dev")
	lines := []string{"unshare -Ur echo in"}
	if _, err := exec.LookPath("bwrap"); err == nil { // then the image has it, too
		lines = append(lines, "bwrap --ro-bind / / --dev /dev --proc /proc --unshare-all --share-net echo in")
	}
	for _, user := range []string{"root", "nobody"} {
		for _, line := range lines {
			if out, err := s.command("hutch", "exec", "-u", user, "dev", "sh", "-c", line).CombinedOutput(); err != nil || string(out) != "in\n" {
				t.Errorf("%s, %s: %v %s", user, line, err, out)
			}
		}
	}
}
