// Package process watches and ends the host's processes that VMs run in. They
// outlive this one, and may have been started by another: they are held by pidfd, and
// told from others by their arguments.
package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Family is the processes of one machine: they go by one of Names, and have
// Mark, the machine's folder, among their arguments.
type Family struct {
	Names []string
	Mark  string
}

// A Process is another process, held by a pidfd: its number cannot come to
// mean a different one.
type Process struct {
	pid  int
	fd   *os.File
	gone chan struct{} // closed when it has ended, or is let go of
}

// Open returns the process pid if it is of the family.
func (f Family) Open(pid int) (*Process, error) {
	p, err := open(pid)
	if err != nil {
		return nil, err
	}
	if !f.has(pid) {
		p.fd.Close()
		return nil, fmt.Errorf("process %d: %w", pid, unix.ESRCH)
	}
	go p.watch()
	return p, nil
}

// Child returns the process pid, which this one has started and nobody has
// waited for. It may have ended.
func Child(pid int) (*Process, error) {
	p, err := open(pid)
	if err == nil {
		go p.watch()
	}
	return p, err
}

func open(pid int) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", pid, err)
	}
	return &Process{pid, os.NewFile(uintptr(fd), fmt.Sprintf("process %d", pid)), make(chan struct{})}, nil
}

// End kills the process, waits for its end, and lets go of it.
func (p *Process) End() {
	if p.Signal(unix.SIGKILL) == nil {
		<-p.gone
		p.Status()
	}
	p.LetGo()
}

// has looks at the process' arguments. Unlike its stat file these can be had of
// one that is stuck in an exec, maybe on us.
func (f Family) has(pid int) bool {
	line := arguments(pid)
	name, _, _ := bytes.Cut(line, []byte{0})
	return slices.Contains(f.Names, string(name)) && bytes.Contains(line, []byte(f.Mark))
}

// arguments returns what the process was called with. One in the middle of an
// exec has nothing for a moment, which is waited for. Others never have: those
// of the kernel, and the many that carry a gVisor guest's threads.
func arguments(pid int) []byte {
	const (
		waits = 250 // of a millisecond
		looks = 5   // an exec may end between two, and the next begin
	)
	for waited, looked := 0, 0; ; {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil || len(line) > 0 || waited == waits || looked == looks {
			return line
		}
		if !inExec(pid) {
			looked++
			continue
		}
		time.Sleep(time.Millisecond)
		waited++
	}
}

// inExec says whether the process is in the middle of an exec: its memory is
// new, and neither its code nor its environment has a place in it yet. Of a
// process that we may not look into that cannot be said.
func inExec(pid int) bool {
	f := stat(pid)
	if len(f) < 49 || f[0][0] == 'Z' || f[0][0] == 'X' {
		return false
	}
	const kernelThread = 0x200000
	flags, err := strconv.ParseUint(f[6], 10, 32)
	startCode, envEnd := f[23], f[48]
	return err == nil && flags&kernelThread == 0 && startCode == "0" && envEnd == "0"
}

// Sweep kills every process of the family, those too that others of it start
// meanwhile.
func (f Family) Sweep() {
	for again := true; again; {
		again = false
		names, _ := filepath.Glob("/proc/[0-9]*")
		for _, name := range names {
			if pid, err := strconv.Atoi(filepath.Base(name)); err == nil && f.has(pid) {
				again = f.Kill(pid) > 0 || again
			}
		}
	}
}

// Kill kills those of pids that are of the family, waits for their end, and
// returns how many there were.
func (f Family) Kill(pids ...int) int {
	n := 0
	for _, pid := range pids {
		if p, err := f.Open(pid); err == nil {
			p.End()
			n++
		}
	}
	return n
}

// PID returns the process' number.
func (p *Process) PID() int { return p.pid }

// Gone is closed when the process has ended, and by LetGo.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// watch closes gone at the process' end. It costs no thread: a pidfd is
// readable from then on.
func (p *Process) watch() {
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

// LetGo closes the pidfd and ends the watch.
func (p *Process) LetGo() {
	p.fd.Close()
	<-p.gone
}

// Signal sends s to the process; one that has ended gets it without an error.
// One that is let go of does not get it: the error is os.ErrClosed.
func (p *Process) Signal(s unix.Signal) error {
	conn, err := p.fd.SyscallConn()
	if err != nil {
		return err
	}
	if conn.Control(func(fd uintptr) { err = unix.PidfdSendSignal(int(fd), s, nil, 0) }) != nil {
		return fmt.Errorf("process %d: %w", p.pid, os.ErrClosed) // which Control's error is not
	}
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// Status returns how the process ended, if the system tells: its stat file
// does until its parent has asked, and from then on, since Linux 6.15, the
// pidfd does.
func (p *Process) Status() (ws unix.WaitStatus, ok bool) {
	conn, err := p.fd.SyscallConn()
	if err != nil {
		return 0, false
	}
	conn.Control(func(fd uintptr) {
		if unix.PidfdSendSignal(int(fd), 0, nil, 0) == nil {
			ws, ok = zombie(p.pid)
		}
		if !ok { // no longer there, or never was, or its parent has asked just now
			info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
			_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.PIDFD_GET_INFO, uintptr(unsafe.Pointer(&info)))
			ws, ok = unix.WaitStatus(uint32(info.Exit_code)), errno == 0 && info.Mask&unix.PIDFD_INFO_EXIT != 0
		}
		// The parent is this process where it started it, or is the first of a container.
		unix.Waitid(unix.P_PIDFD, int(fd), nil, unix.WEXITED|unix.WNOHANG, nil)
	})
	return ws, ok
}

// zombie returns the exit status of a process whose parent has not asked yet:
// the last field of its stat file.
func zombie(pid int) (unix.WaitStatus, bool) {
	f := stat(pid)
	if len(f) < 2 || f[0][0] != 'Z' {
		return 0, false
	}
	code, err := strconv.ParseUint(f[len(f)-1], 10, 32)
	return unix.WaitStatus(code), err == nil
}

// How says how the process called name ended; nil is well.
func (p *Process) How(name string) error {
	ws, ok := p.Status()
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
