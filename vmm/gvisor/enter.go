//go:build linux

package gvisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"hutch/vmm/cgroup"
)

// enterName, as a program's name, makes any program with this package in it
// the first process of a machine's namespaces. It mounts what only they are
// to see and becomes runsc.
const enterName = "hutch-enter"

// An entry says what to do there.
type entry struct {
	Lower  string   // the image; "": there is nothing to mount
	Layer  string   // the folder of what was written over it
	Root   string   // where the two are seen as one
	CPUs   int      // how many processors to run on; 0: all
	RAM    int64    // how much memory the guest is to believe there is; 0: all
	Dir    string   // the machine's folder; "": it has none that others know
	Groups []string // its control group
	Runsc  string   // the program to become
	Flags  []string // its arguments up to the command's name
	Args   []string // the rest
	Log    string   // where to tell what is not as it should be
	UserNS bool     // in a user namespace, where an overlay keeps its notes in user attributes
}

func init() {
	if os.Args[0] != enterName {
		return
	}
	runtime.LockOSThread() // affinity is a thread's
	err := enter(os.Args[1])
	fmt.Fprintln(os.Stderr, err)
	if errors.Is(err, errRestricted) {
		os.Exit(exitRestricted)
	}
	os.Exit(125)
}

// errRestricted is returned where a user namespace can be had, but gives no
// powers: a security module forbids them.
var errRestricted = errors.New("user namespaces are restricted here and hutchd is not root")

// exitRestricted is the exit status that says so.
const exitRestricted = 126

func enter(arg string) error {
	var e entry
	if err := json.Unmarshal([]byte(arg), &e); err != nil {
		return err
	}
	if err := cgroup.Enter(e.Groups); err != nil {
		return err
	}
	err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	switch {
	case e.UserNS && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)):
		return fmt.Errorf("%w (%v)", errRestricted, err)
	case err != nil:
		return fmt.Errorf("keep mounts private: %w", err)
	}
	overlay := "none"
	if e.Lower != "" {
		if err := e.mountLayer(); err != nil {
			overlay = "root:memory"
			note(e.Log, fmt.Sprintf(noOverlay+" (%v): what the guest writes outside /workspace is kept in memory and lost when it stops", err))
			if err := unix.Mount(e.Lower, e.Root, "", unix.MS_BIND, ""); err != nil {
				return fmt.Errorf("show the image: %w", err)
			}
		}
	}
	if e.Dir != "" {
		if err := e.checkPlaces(); err != nil {
			return err
		}
	}
	if err := pin(e.CPUs); err != nil {
		return err
	}
	if err := e.tellRAM(); err != nil {
		return err
	}
	// Where the whole host runs out of memory, guests go before hutchd does.
	os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0o644)
	args := append([]string{"runsc"}, e.Flags...)
	args = append(append(args, "--overlay2="+overlay), e.Args...)
	return fmt.Errorf("runsc: %w", syscall.Exec(e.Runsc, args, os.Environ()))
}

// mountLayer mounts the layer over the image at e.Root. The folders are named
// by descriptors: an overlay's options have no room for long paths, commas and
// colons.
func (e *entry) mountLayer() error {
	names := []string{e.Lower, filepath.Join(e.Layer, "up"), filepath.Join(e.Layer, "work")}
	for i, name := range names {
		if i > 0 {
			if err := os.Mkdir(name, 0o755); err != nil && !os.IsExist(err) {
				return err
			}
		}
		fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		defer unix.Close(fd)
		names[i] = fmt.Sprintf("/proc/self/fd/%d", fd)
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", names[0], names[1], names[2])
	if e.UserNS {
		options += ",userxattr"
	}
	return unix.Mount("overlay", e.Root, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options)
}

// tellRAM has runsc, and so the guest, see the machine's limit as all the
// memory there is: runsc reads it where the host tells.
func (e *entry) tellRAM() error {
	if e.RAM == 0 {
		return nil
	}
	const meminfo = "/proc/meminfo"
	name := filepath.Join(e.Dir, "meminfo")
	if err := os.WriteFile(name, fmt.Appendf(nil, "MemTotal: %d kB\n", e.RAM>>10), 0o644); err != nil {
		return err
	}
	if err := unix.Mount(name, meminfo, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("tell the guest its memory: %w", err)
	}
	return nil
}

// pin keeps this process and those it starts on n of the processors that it
// may run on, so that the guest has no more than n. Which ones depends on the
// process id, to spread machines.
func pin(n int) error {
	var all, some unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return fmt.Errorf("processors: %w", err)
	}
	if n == 0 || n >= all.Count() {
		return nil
	}
	skip := os.Getpid() % all.Count()
	for cpu := 0; some.Count() < n; cpu = (cpu + 1) % (len(all) * 64) {
		if all.IsSet(cpu) {
			if skip--; skip < 0 {
				some.Set(cpu)
			}
		}
	}
	if err := unix.SchedSetaffinity(0, &some); err != nil {
		return fmt.Errorf("processors: %w", err)
	}
	return nil
}

// noOverlay starts the line of the log that says so.
const noOverlay = "no overlay here"

// note adds a line to the file path.
func note(path, text string) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	fmt.Fprintln(f, "hutch: "+text)
	f.Close()
}
