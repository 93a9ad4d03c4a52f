//go:build !linux

package aggd

import (
	"io"
	"os/exec"
	"syscall"
)

const (
	termSignal = syscall.SIGTERM
	killSignal = syscall.SIGKILL
)

// isolate gives a program a process group of its own; when we die, it ends with
// its input.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// awaitExit waits until the program's output has been read: nothing here waits for
// an end without reaping. stop sees to the rest of the group.
func awaitExit(_ int, read <-chan struct{}, _ []io.Reader) { <-read }

func signalGroup(pid int, sig syscall.Signal) { syscall.Kill(-pid, sig) }
