//go:build linux

package gvisor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A process is another process, held by a pidfd: its number cannot come to
// mean a different one.
type process struct {
	pid  int
	fd   *os.File
	gone chan struct{} // closed when it has ended, or is let go of
}

// openProcess returns the process pid if it works for the machine in dir.
func openProcess(pid int, dir string) (*process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", pid, err)
	}
	p := &process{pid, os.NewFile(uintptr(fd), fmt.Sprintf("process %d", pid)), make(chan struct{})}
	if !worksFor(pid, dir) {
		p.fd.Close()
		return nil, fmt.Errorf("process %d: %w", pid, unix.ESRCH)
	}
	go p.watch()
	return p, nil
}

// ours are the names that processes of machines go by.
var ours = []string{enterName, "runsc", "runsc-sandbox", "runsc-gofer"}

// worksFor says whether pid is a process of the machine in dir: the folder is
// among the arguments of all of them.
func worksFor(pid int, dir string) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	name, _, _ := bytes.Cut(line, []byte{0})
	return err == nil && slices.Contains(ours, string(name)) && bytes.Contains(line, []byte(dir))
}

// watch closes gone at the process' end. It costs no thread: a pidfd is
// readable from then on.
func (p *process) watch() {
	defer close(p.gone)
	conn, err := p.fd.SyscallConn()
	if err != nil {
		return
	}
	conn.Read(func(fd uintptr) bool {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, _ := unix.Poll(poll, 0)
		return n > 0
	})
}

// letGo closes the pidfd and ends watch.
func (p *process) letGo() {
	p.fd.Close()
	<-p.gone
}

func (p *process) signal(s unix.Signal) error {
	conn, err := p.fd.SyscallConn()
	if err != nil {
		return err
	}
	cerr := conn.Control(func(fd uintptr) { err = unix.PidfdSendSignal(int(fd), s, nil, 0) })
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return errors.Join(cerr, err)
}

// status returns how the process ended, if the system tells: its stat file
// does until its parent has asked, and from then on, since Linux 6.15, the
// pidfd does.
func (p *process) status() (ws unix.WaitStatus, ok bool) {
	conn, err := p.fd.SyscallConn()
	if err != nil {
		return 0, false
	}
	conn.Control(func(fd uintptr) {
		ws, ok = zombie(p.pid)
		if unix.PidfdSendSignal(int(fd), 0, nil, 0) != nil { // no longer there, or never was
			info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
			_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.PIDFD_GET_INFO, uintptr(unsafe.Pointer(&info)))
			ws, ok = unix.WaitStatus(uint32(info.Exit_code)), errno == 0 && info.Mask&unix.PIDFD_INFO_EXIT != 0
		}
		// The parent is hutchd where it is the first process of a container.
		unix.Waitid(unix.P_PIDFD, int(fd), nil, unix.WEXITED|unix.WNOHANG, nil)
	})
	return ws, ok
}

// zombie returns the exit status of a process whose parent has not asked yet:
// the last field of its stat file.
func zombie(pid int) (unix.WaitStatus, bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	after := bytes.LastIndexByte(data, ')') // of the name
	f := bytes.Fields(data[after+1:])
	if len(f) < 2 || f[0][0] != 'Z' {
		return 0, false
	}
	code, err := strconv.ParseUint(string(f[len(f)-1]), 10, 32)
	return unix.WaitStatus(code), err == nil
}

// how says how the process called name ended.
func (p *process) how(name string) error {
	ws, ok := p.status()
	switch {
	case !ok:
		return fmt.Errorf("%s ended", name)
	case ws.Signaled():
		return fmt.Errorf("%s ended: signal %s", name, ws.Signal())
	case ws.ExitStatus() != 0:
		return fmt.Errorf("%s ended: exit status %d", name, ws.ExitStatus())
	}
	return nil
}

// sweep kills what still works for the machine in dir.
func sweep(dir string) {
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		if pid, err := strconv.Atoi(filepath.Base(name)); err == nil && worksFor(pid, dir) {
			kill(dir, pid)
		}
	}
}

// kill kills those of pids that work for the machine in dir, and waits for
// their end.
func kill(dir string, pids ...int) {
	for _, pid := range pids {
		p, err := openProcess(pid, dir)
		if err != nil {
			continue
		}
		if p.signal(unix.SIGKILL) == nil {
			<-p.gone
			p.status()
		}
		p.letGo()
	}
}

// children returns the processes that pid started, and those that they did.
func children(pid int) []int {
	var all []int
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		data, _ := os.ReadFile(file)
		for _, word := range bytes.Fields(data) {
			if n, err := strconv.Atoi(string(word)); err == nil {
				all = append(append(all, n), children(n)...)
			}
		}
	}
	return all
}
