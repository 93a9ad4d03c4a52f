//go:build linux

package qemu

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"hutch/fs"
	relay "hutch/relay/port"
	"hutch/vmm/process"
)

// A command is a QEMU to be started: its arguments, and the open files that
// they name.
type command struct {
	args  []string
	files []*os.File
	paths []int // descriptors of those that QEMU opens by path
}

func (c *command) add(args ...string) { c.args = append(c.args, args...) }

// hand passes f to QEMU, and returns the descriptor that it has there.
func (c *command) hand(f *os.File) int {
	c.files = append(c.files, f)
	return 2 + len(c.files)
}

func (c *command) open(path string, flags int) (fd int, err error) {
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return 0, err
	}
	return c.hand(f), nil
}

// file opens a file for QEMU and returns the path it has there for what
// reads it by QEMU's own open.
func (c *command) file(path string, flags int) (string, error) {
	fd, err := c.open(path, flags)
	if err != nil {
		return "", err
	}
	c.add("-add-fd", fmt.Sprintf("fd=%d,set=%d", fd, fd))
	return fmt.Sprintf("/dev/fdset/%d", fd), nil
}

// plain opens a file that QEMU reads by its own open, and returns the path that
// it has there.
func (c *command) plain(path string) (string, error) {
	fd, err := c.open(path, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	c.paths = append(c.paths, fd)
	return fmt.Sprint(filesDir, fd), nil
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

// start starts the command as the program, with its output at the end of the file
// logPath, in namespaces of its own and with a root in which there are programs of
// the system alone, for the machine in dir. Where hutchd may have none of these it
// does without. The command is closed then: else its sockets would outlive QEMU.
func (c *command) start(program, dir, logPath string, u user) (*process.Process, error) {
	defer c.close()
	log, err := os.OpenFile(logPath, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	arg, err := json.Marshal(entry{Dir: dir, Program: program, Args: c.args, Files: c.paths, User: u.id, Groups: u.groups})
	if err != nil {
		return nil, err
	}
	cmd := c.process("/proc/self/exe", log, enterName, string(arg))
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	if err = cmd.Start(); err != nil && !passing(err) {
		fmt.Fprintf(log, noOwnSpace+"%v\n", err)
		cmd = c.process(program, log, append([]string{programName}, byDescriptor(c.args)...)...)
		if u.id != 0 {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: u.id, Gid: u.id, Groups: u.groups}
		}
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: qemu: %w", fs.ErrIO, err)
	}
	defer cmd.Process.Release()
	return process.Child(cmd.Process.Pid)
}

// passing says whether err, of a process that was to begin, is of the moment,
// and not what hutchd may not have.
func passing(err error) bool {
	return slices.ContainsFunc([]error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE},
		func(e error) bool { return errors.Is(err, e) })
}

// process returns a process with what QEMU is to have open, and nothing of ours.
func (c *command) process(program string, log *os.File, args ...string) *exec.Cmd {
	cmd := exec.Command(program)
	cmd.Args, cmd.Env, cmd.Dir = args, []string{}, "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = c.files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// begin adds what all machines have, and the argument that tells it from others.
func (c *command) begin(dir, serial string, sh shape) error {
	c.add("-name", mark(dir), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny", "-rtc", "base=utc")
	c.add(sh.args()...)
	c.add("-mon", "chardev=qmp,mode=control")
	return errors.Join(c.socket(dir, "qmp"), c.serial(serial))
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
	Guest   string `json:"guest,omitempty"` // SHA-256 of the program that it began with
	CID     uint32 `json:"cid,omitempty"`   // on AF_VSOCK; where the machine goes on it may have another
	Ports   uint32 `json:"ports,omitempty"` // the first of its ports there; 0: they are on a serial port
	// Its guest dials what is root's from reserved ports there, as one that
	// began with an earlier hutchd does not.
	Reserved bool `json:"reserved,omitempty"`
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
