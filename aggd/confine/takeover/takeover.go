//go:build linux

// Package takeover tries, as somebody who runs code in a confined process would,
// all that the process is not to reach. Only tests and programs built with the tag
// takeover contain it.
package takeover

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Target is what is attacked, as JSON of a Targets; the linker sets it.
var Target string

// Targets are things of a hutchd's.
type Targets struct {
	State    string // its state folder
	Socket   string // of its tree
	Abstract string // an abstract socket of somebody's
	PID      int    // a process of hutchd's user
	Dir      string // a folder that anybody may write
}

// Run tries everything, and writes a line to the standard error for each try:
// "takeover PROGRAM NAME refused: WHY" or "takeover PROGRAM NAME DONE".
func Run() {
	var t Targets
	if err := json.Unmarshal([]byte(Target), &t); err != nil {
		fmt.Fprintln(os.Stderr, "takeover: no target:", err)
		return
	}
	program := filepath.Base(os.Args[len(os.Args)-1])
	if program != "proxy" {
		program = filepath.Base(os.Args[0])
	}
	for _, try := range Tries {
		err := try.Do(t)
		if err != nil {
			fmt.Fprintf(os.Stderr, "takeover %s %s refused: %v\n", program, try.Name, err)
		} else {
			fmt.Fprintf(os.Stderr, "takeover %s %s DONE\n", program, try.Name)
		}
	}
	fmt.Fprintf(os.Stderr, "takeover %s ended\n", program)
}

// A Try is one thing that is forbidden. Do returns why it could not be done.
type Try struct {
	Name string
	Root bool // only root could do it unconfined
	Do   func(Targets) error
}

// Tries are the rows of the reference's table of what its aggregator may not, and
// what the ways around them would be.
var Tries = []Try{
	{"ledger", false, func(t Targets) error { return read(glob(t, "vm/*/session.db")) }},
	{"workspace", false, func(t Targets) error { return list(glob(t, "vm/*/work")) }},
	{"profiles", false, func(t Targets) error { return list(filepath.Join(t.State, "profiles")) }},
	{"state", false, func(t Targets) error { return list(t.State) }},
	{"write", false, func(t Targets) error { return os.WriteFile(filepath.Join(t.Dir, "taken"), nil, 0o600) }},
	{"passwd", false, func(Targets) error { return read("/etc/passwd") }},
	{"shadow", true, func(Targets) error { return read("/etc/shadow") }},
	{"root", false, func(Targets) error { return list("/") }},
	{"tree", false, func(t Targets) error {
		return connect(unix.AF_UNIX, unix.SOCK_STREAM, &unix.SockaddrUnix{Name: t.Socket})
	}},
	{"abstract", false, func(t Targets) error {
		return connect(unix.AF_UNIX, unix.SOCK_STREAM, &unix.SockaddrUnix{Name: "@" + t.Abstract})
	}},
	{"raw", true, func(Targets) error { return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) }},
	{"packet", true, func(Targets) error { return socket(unix.AF_PACKET, unix.SOCK_RAW, 0) }},
	{"netlink", false, func(Targets) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE) }},
	{"vsock", false, func(Targets) error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) }},
	{"listen", false, listen},
	{"exec", false, func(Targets) error { return exec.Command("/bin/true").Run() }},
	{"execve", false, func(Targets) error { return call(unix.SYS_EXECVEAT, ^uintptr(0), 0, 0) }}, // of nothing, without a fork
	{"fork", false, fork},
	{"signal", false, func(t Targets) error { return syscall.Kill(t.PID, 0) }},
	{"ptrace", true, ptrace},
	{"memory", true, func(t Targets) error { return read(fmt.Sprintf("/proc/%d/mem", t.PID)) }},
	{"environment", false, func(t Targets) error { return read(fmt.Sprintf("/proc/%d/environ", t.PID)) }},
	{"process_vm_readv", true, remote},
	{"pidfd", false, func(t Targets) error {
		fd, err := unix.PidfdOpen(t.PID, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}},
	{"mount", true, func(t Targets) error {
		err := unix.Mount("none", t.Dir, "tmpfs", 0, "")
		if err == nil {
			unix.Unmount(t.Dir, unix.MNT_DETACH)
		}
		return err
	}},
	{"chroot", true, func(Targets) error { return unix.Chroot("/") }},
	{"namespace", false, func(Targets) error { return call(unix.SYS_UNSHARE, unix.CLONE_NEWUSER, 0, 0) }},
	{"bpf", true, func(Targets) error { return call(unix.SYS_BPF, 0, 0, 0) }},
	{"keyring", false, func(Targets) error {
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
		return err
	}},
	{"io_uring", false, func(Targets) error { return call(unix.SYS_IO_URING_SETUP, 0, 0, 0) }},
	{"setuid", true, func(Targets) error { return unix.Setresuid(0, 0, 0) }},
}

func glob(t Targets, pattern string) string {
	found, _ := filepath.Glob(filepath.Join(t.State, pattern))
	if len(found) > 0 {
		return found[0]
	}
	return filepath.Join(t.State, strings.ReplaceAll(pattern, "*", "dev"))
}

func read(path string) error {
	f, err := os.Open(path)
	if err == nil {
		f.Close()
	}
	return err
}

func list(path string) error {
	_, err := os.ReadDir(path)
	return err
}

func socket(family, kind, protocol int) error {
	fd, err := unix.Socket(family, kind, protocol)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func connect(family, kind int, to unix.Sockaddr) error {
	fd, err := unix.Socket(family, kind, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, to)
}

// listen waits for connections where the host's own services are.
func listen(Targets) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Listen(fd, 1)
}

// call makes a system call with arguments that mean nothing: being told so is
// being let through.
func call(number, a, b, c uintptr) error {
	_, _, err := syscall.Syscall(number, a, b, c)
	if err == 0 || err == syscall.EFAULT || err == syscall.EBADF || err == syscall.ENOENT || err == syscall.EINVAL || err == syscall.E2BIG {
		return nil
	}
	return err
}

// fork makes a process that only ends.
func fork(Targets) error {
	pid, _, err := syscall.RawSyscall(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0)
	if err != 0 {
		return err
	}
	if pid == 0 {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
	syscall.Wait4(int(pid), nil, 0, nil)
	return nil
}

// ptrace seizes a process, and lets it go with the thread that did it.
func ptrace(t Targets) error {
	const seize = 0x4206
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and it ends with this goroutine
		_, _, err := syscall.Syscall6(syscall.SYS_PTRACE, seize, uintptr(t.PID), 0, 0, 0, 0)
		if err != 0 {
			done <- err
		}
		close(done)
	}()
	return <-done
}

// remote reads memory of a process.
func remote(t Targets) error {
	maps, err := os.ReadFile("/proc/" + strconv.Itoa(t.PID) + "/maps")
	if err != nil {
		return call(unix.SYS_PROCESS_VM_READV, uintptr(t.PID), 0, 0)
	}
	from, _ := strconv.ParseUint(strings.SplitN(string(maps), "-", 2)[0], 16, 64)
	b := make([]byte, 8)
	_, err = unix.ProcessVMReadv(t.PID, []unix.Iovec{{Base: &b[0], Len: 8}}, []unix.RemoteIovec{{Base: uintptr(from), Len: 8}}, 0)
	return err
}
