package aggd

import (
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	termSignal = syscall.SIGTERM
	killSignal = syscall.SIGKILL
)

// isolate gives a program a process group of its own and ends it with us.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits for the end of a program, kills what it left in its group while
// the group's id is still its own, and waits until its output has been read.
func awaitExit(pid int, read <-chan struct{}) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break
		}
	}
	signalGroup(pid, killSignal)
	drained := time.NewTimer(time.Second)
	defer drained.Stop()
	select {
	case <-read:
	case <-drained.C: // somebody outside the group holds the pipes
	}
}

func signalGroup(pid int, sig syscall.Signal) { syscall.Kill(-pid, sig) }
