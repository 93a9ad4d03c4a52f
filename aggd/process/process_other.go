//go:build !linux

package process

import (
	"os/exec"
	"syscall"
)

// isolate gives the process a session of its own.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}

// awaitExit leaves the waiting to the caller's Wait.
func awaitExit(int) {}

// sweep has nothing to find the rest of a session by; the servers end with their
// input.
func sweep(int) {}
