package process

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// isolate gives the process a session of its own and ends it with its parent.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
}

// awaitExit waits for the end of a process and leaves it unreaped, so that its id
// stays its own.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// kill kills the process with all it started.
func kill(pid int) {
	syscall.Kill(-pid, syscall.SIGKILL)
	syscall.Kill(pid, syscall.SIGKILL)
}

// sweep kills what is left of the session of a process that has ended: its
// servers are in process groups of their own, and their children too. Sessions
// are asked for by system call: a process that is stuck in an exec lets nobody
// read its stat file, and what it is stuck on may be us.
func sweep(session int) {
	syscall.Kill(-session, syscall.SIGKILL)
	procs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is good
	for _, name := range procs {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil || pid == session {
			continue
		}
		if of, err := unix.Getsid(pid); err == nil && of == session {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
