//go:build linux

package qemu

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// enterName, as a program's name, makes any program with this package in it
// the first process of a machine's namespaces, which becomes QEMU.
const enterName = "hutch-enter-qemu"

// An entry says what to do there.
type entry struct {
	Dir     string   // the machine's folder, in which the root is mounted
	Program string   // the program to become
	Args    []string // its arguments; what begins with filesDir is one of Files
	Files   []int    // descriptors of files that QEMU opens by path
	User    uint32   // whom it becomes; 0: nobody else
	Groups  []uint32
}

// filesDir is the folder of the root with the files that are opened by path.
const filesDir = "/files/"

func init() {
	if os.Args[0] != enterName {
		return
	}
	runtime.LockOSThread() // what may be done by it is a thread's
	fmt.Fprintln(os.Stderr, "hutch:", enter(os.Args[1]))
	os.Exit(125)
}

// What the log says of a machine whose QEMU sees the host's files. The reason
// follows.
const (
	noOwnRoot  = "hutch: no root of its own for QEMU, it sees the host's files: "
	noOwnSpace = "hutch: no namespaces for QEMU: "
)

func enter(arg string) error {
	var e entry
	if err := json.Unmarshal([]byte(arg), &e); err != nil {
		return err
	}
	if err := e.ownRoot(); err != nil {
		fmt.Fprintf(os.Stderr, noOwnRoot+"%v\n", err)
		e.Args = byDescriptor(e.Args)
	}
	if err := e.drop(); err != nil {
		return err
	}
	return fmt.Errorf("qemu: %w", syscall.Exec(e.Program, append([]string{programName}, e.Args...), []string{}))
}

// byDescriptor names the files that are opened by path by their descriptors:
// these lead there past folders that QEMU's user may not enter.
func byDescriptor(args []string) []string {
	var list []string
	for _, arg := range args {
		if name, ok := strings.CutPrefix(arg, filesDir); ok {
			arg = "/proc/self/fd/" + name
		}
		list = append(list, arg)
	}
	return list
}

// systemFolders are what programs of the system are made of. With the folder
// of the host's root that QEMU is in they are all that there is in the root,
// for reading. It is all of that folder: elsewhere in it may be QEMU's libraries.
var systemFolders = []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}

var devices = []string{"null", "zero", "urandom", "kvm"}

// root is where the root is mounted.
func (e *entry) root() string { return filepath.Join(e.Dir, "root") }

// ownRoot makes the root of this process, in its mount namespace. What fails
// leaves the one that it has.
func (e *entry) ownRoot() error {
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts private: %w", err)
	}
	real, err := filepath.EvalSymlinks(e.Program)
	if err != nil {
		return err
	}
	if err := os.Mkdir(e.root(), 0o755); err != nil {
		return err
	}
	if err := unix.Mount("none", e.root(), "tmpfs", unix.MS_NOSUID, "mode=0755,size=64k"); err != nil {
		return fmt.Errorf("root: %w", err)
	}
	if err := e.furnish(real); err != nil {
		unix.Unmount(e.root(), unix.MNT_DETACH)
		return err
	}
	// The old root ends up over the new one, and goes.
	err = unix.Chdir(e.root())
	if err == nil {
		err = unix.PivotRoot(".", ".")
	}
	if err == nil {
		err = unix.Unmount(".", unix.MNT_DETACH)
	}
	if err == nil {
		err = unix.Chdir("/")
	}
	if err != nil {
		return fmt.Errorf("enter the root: %w", err)
	}
	unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID, "")
	e.Program = real
	return nil
}

// furnish mounts in the root what QEMU, the file program, needs.
func (e *entry) furnish(program string) error {
	top, _, _ := strings.Cut(strings.TrimPrefix(program, "/"), "/")
	for _, name := range append([]string{top}, systemFolders...) {
		if err := e.showFolder(name); err != nil {
			return err
		}
	}
	for _, name := range devices {
		path := "/dev/" + name
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if err := e.showFile(path, path, 0); err != nil {
			return err
		}
	}
	if _, err := os.Stat("/etc/ld.so.cache"); err == nil {
		if err := e.showFile("/etc/ld.so.cache", "/etc/ld.so.cache", unix.MS_RDONLY|unix.MS_NODEV); err != nil {
			return err
		}
	}
	for _, fd := range e.Files {
		// What is open is of the host's mount namespace, and cannot be shown in this one.
		path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if err != nil {
			return err
		}
		if err := e.showFile(path, fmt.Sprint(filesDir, fd), unix.MS_RDONLY|unix.MS_NODEV); err != nil {
			return err
		}
	}
	return nil
}

// showFolder shows a folder of the host's root, or makes the same link.
func (e *entry) showFolder(name string) error {
	from, to := "/"+name, filepath.Join(e.root(), name)
	if _, err := os.Lstat(to); err == nil {
		return nil
	}
	if text, err := os.Readlink(from); err == nil {
		return os.Symlink(text, to)
	}
	if fi, err := os.Stat(from); err != nil || !fi.IsDir() {
		return nil
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	return bindFrom(from, to, unix.MS_RDONLY|unix.MS_NODEV)
}

func (e *entry) showFile(from, name string, flags uintptr) error {
	to := filepath.Join(e.root(), name)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	f.Close()
	return bindFrom(from, to, flags)
}

// bindFrom shows from at to. In a user namespace the flags that a mount has
// must stay; there the files are read-only by their owner.
func bindFrom(from, to string, flags uintptr) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("show %s: %w", from, err)
	}
	err := unix.Mount("", to, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|flags, "")
	if err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("show %s: %w", from, err)
	}
	return nil
}

// The bits of prctl's PR_SET_SECUREBITS by which root is a user like others.
const (
	noRoot       = 1 << 0
	noRootLocked = 1 << 1
)

// drop gives up every power for good.
func (e *entry) drop() error {
	if e.User != 0 {
		groups := make([]int, len(e.Groups))
		for i, g := range e.Groups {
			groups[i] = int(g)
		}
		id := int(e.User)
		if err := errors.Join(syscall.Setgroups(groups), syscall.Setresgid(id, id, id), syscall.Setresuid(id, id, id)); err != nil {
			return fmt.Errorf("become user %d: %w", id, err)
		}
	}
	unix.Prctl(unix.PR_SET_SECUREBITS, noRoot|noRootLocked, 0, 0, 0) // of use in a user namespace only
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	var none [2]unix.CapUserData
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}
