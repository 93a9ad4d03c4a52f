package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// start starts a program, in the agent's control group if it has one; ended is
// called once, from the reaper, when it ends. Into a group that is full nothing
// can be started, only moved: so a guest that has all the processes it may have
// can still be told to end some.
func (r *reaper) start(path string, argv []string, attr *syscall.ProcAttr, ended func(exit)) (int, error) {
	if r.group == nil {
		return r.fork(path, argv, attr, ended)
	}
	attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(r.group.Fd())
	pid, err := r.fork(path, argv, attr, ended)
	if !errors.Is(err, syscall.EAGAIN) {
		return pid, err
	}
	attr.Sys.UseCgroupFD = false
	if pid, err = r.fork(path, argv, attr, ended); err == nil {
		os.WriteFile(filepath.Join(r.group.Name(), "cgroup.procs"), []byte(strconv.Itoa(pid)), 0) // fails if it has ended
	}
	return pid, err
}

// keepRoom has the agent alone be over the limits of the guest's processes, if
// its host gave it the right to: nothing that it starts gets it too. So a
// guest that is full of processes can still be told to end some.
func keepRoom() {
	syscall.AllThreadsSyscall(syscall.SYS_PRCTL, unix.PR_CAPBSET_DROP, unix.CAP_SYS_RESOURCE, 0)
}

// tasks returns how many processes and threads there are: in the agent's control
// group, or in the whole guest.
func (r *reaper) tasks() int {
	if r.group != nil {
		text, _ := os.ReadFile(filepath.Join(r.group.Name(), "pids.current"))
		n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		return n
	}
	var info syscall.Sysinfo_t
	if err := syscall.Sysinfo(&info); err != nil {
		return 0
	}
	return int(info.Procs)
}
