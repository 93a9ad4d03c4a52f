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
			end(pid, session)
		}
	}
}

// stuck is how long a killed process may take to be gone, in milliseconds: one
// that the kernel holds up is not waited for.
const stuck = 1000

// end kills the process pid of a session, and waits until it is gone.
func end(pid, session int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if of, err := unix.Getsid(pid); err != nil || of != session {
		return // the number is another process's by now
	}
	if unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil {
		for err := error(unix.EINTR); err == unix.EINTR; { // by a signal that is for us
			_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, stuck)
		}
	}
}
