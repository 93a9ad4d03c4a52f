package aggd

import (
	"io"
	"os"
	"os/exec"
	"slices"
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

// maxDrain is for how many seconds the output of a program that has ended is read
// on while more comes.
const maxDrain = 60

// awaitExit waits for the end of a program, kills what it left in its group while
// the group's id is still its own, and waits until its output has been read.
func awaitExit(pid int, read <-chan struct{}, pipes []io.Reader) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break
		}
	}
	signalGroup(pid, killSignal)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range maxDrain {
		select {
		case <-read:
			return
		case <-tick.C:
			if !slices.ContainsFunc(pipes, unread) {
				return // somebody outside the group holds the pipes
			}
		}
	}
}

// unread reports whether a pipe has something in it.
func unread(pipe io.Reader) (some bool) {
	f, ok := pipe.(*os.File)
	if !ok {
		return false
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		_, err := unix.Poll(fds, 0)
		some = err == unix.EINTR || fds[0].Revents&unix.POLLIN != 0
	})
	return some
}

func signalGroup(pid int, sig syscall.Signal) { syscall.Kill(-pid, sig) }
