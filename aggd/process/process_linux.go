package process

import (
	"bytes"
	"os"
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
// servers are in process groups of their own, and their children too.
func sweep(session int) {
	syscall.Kill(-session, syscall.SIGKILL)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is good
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		// pid (name) state ppid pgrp session …; the name may hold anything
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 4 || string(fields[3]) != strconv.Itoa(session) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil && pid != session {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
