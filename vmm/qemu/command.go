//go:build linux

package qemu

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"hutch/fs/node"
	relay "hutch/relay/port"
	"hutch/vmm/process"
)

// A command is a QEMU to be started: its arguments, and the open files that
// they name.
type command struct {
	args  []string
	files []*os.File
}

func (c *command) add(args ...string) { c.args = append(c.args, args...) }

// hand passes f to QEMU, and returns the descriptor that it has there.
func (c *command) hand(f *os.File) int {
	c.files = append(c.files, f)
	return 2 + len(c.files)
}

// file opens a file for QEMU and returns the path it has there for what
// reads it by QEMU's own open.
func (c *command) file(path string, flags int) (string, error) {
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return "", err
	}
	fd := c.hand(f)
	c.add("-add-fd", fmt.Sprintf("fd=%d,set=%d", fd, fd))
	return fmt.Sprintf("/dev/fdset/%d", fd), nil
}

// plain opens a file that everybody may read, and returns a path for it that
// leads there past folders that QEMU's user may not enter.
func (c *command) plain(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("/proc/self/fd/%d", c.hand(f)), nil
}

// block adds a node that blocks are read from or written to.
func (c *command) block(node map[string]any) {
	data, err := json.Marshal(node)
	if err != nil {
		panic(err) // of maps of strings
	}
	c.add("-blockdev", string(data))
}

func (c *command) close() {
	for _, f := range c.files {
		f.Close()
	}
}

// programName is what machines' processes go by.
const programName = "hutch-qemu"

// mark is the argument that tells the processes of the machine in dir.
func mark(dir string) string { return "guest=" + strings.ReplaceAll(dir, ",", ",,") }

// start starts the command as the program, with its output in the file log.
func (c *command) start(program string, log *os.File, u user) (*process.Process, error) {
	cmd := exec.Command(program, c.args...)
	cmd.Args[0] = programName
	cmd.Env = []string{} // nothing of ours is to be seen in there
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = c.files
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if u.id != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: u.id, Gid: u.id, Groups: u.groups}
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: qemu: %w", node.ErrIO, err)
	}
	defer cmd.Process.Release()
	return process.Child(cmd.Process.Pid)
}

// begin adds what all machines have, and the argument that tells it from others.
func (c *command) begin(dir string, sh shape) {
	c.add("-name", mark(dir), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny", "-rtc", "base=utc")
	c.add(sh.args()...)
}

// boot adds a kernel and what that begins with. A clock that is translated
// cannot be calibrated.
func (c *command) boot(kernel, initrd string, sh shape) error {
	words := "console=ttyS0 quiet panic=-1"
	if sh.Accel == tcg {
		words += " tsc=unstable no_timer_check"
	}
	if sh.Ports != 0 {
		words += fmt.Sprintf(" %s%d", relay.Word, sh.Ports)
	}
	kernel, err := c.plain(kernel)
	if err != nil {
		return err
	}
	if initrd, err = c.plain(initrd); err != nil {
		return err
	}
	c.add("-kernel", kernel, "-initrd", initrd, "-append", words)
	return nil
}

// A shape is what must be the same where a machine goes on.
type shape struct {
	Machine string `json:"machine"` // QEMU's name of it
	Accel   string `json:"accel"`
	RAM     int64  `json:"ram"`
	CPUs    int    `json:"cpus"`
	CID     uint32 `json:"cid,omitempty"`   // on AF_VSOCK; where the machine goes on it may have another
	Ports   uint32 `json:"ports,omitempty"` // the first of its ports there; 0: they are on a serial port
}

func (s shape) args() []string {
	cpu := "host"
	accel := s.Accel
	if accel == tcg {
		cpu, accel = "Nehalem", "tcg,thread=multi,tb-size=128"
	}
	return []string{
		"-M", s.Machine + ",usb=off,vmport=off,smbus=off", "-accel", accel, "-cpu", cpu,
		"-m", "size=" + strconv.FormatInt(s.RAM>>10, 10) + "k", "-smp", strconv.Itoa(s.CPUs),
	}
}
