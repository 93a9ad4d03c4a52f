//go:build linux

package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"hutch/fs"
)

// flags are those of runsc that are the same for every machine.
var flags = []string{
	"--network=none", "--host-uds=open", "--named-sockets", // of mounts that are named, see runsc/main.go
	"--ignore-cgroups", "--host-settings=ignore",
	"--file-access-mounts=exclusive", // but for those that are shared
	// Without a pinned network namespace there is no mount to clean up.
	"--gofer-network-namespace=new",
	// gVisor's own Go module has no sidecar programs.
	"--sidecar-usage-policy=LEGACY_DEPRECATED_SLOW_EMBEDDED_FALLBACK",
}

// run does e, with its output at the end of the file out, and returns when the
// command has ended. If ctx ends first, it is killed; what it had started is
// the caller's to sweep.
func run(ctx context.Context, e entry, output string) error {
	e.UserNS = !privileged() || !initialUserNS()
	arg, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return execute(ctx, output, nil, "/proc/self/exe", enterName, string(arg))
}

// execute runs a program in a mount namespace of its own, and for an ordinary
// user in a user namespace, in which it may do as root does. It has the file
// held open, if there is one.
func execute(ctx context.Context, output string, held *os.File, program string, args ...string) error {
	out, err := os.OpenFile(output, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	own := !privileged()
	cmd := exec.CommandContext(ctx, program)
	cmd.Args = args
	cmd.Env = []string{} // nothing of ours is to be seen in there
	cmd.Stdout, cmd.Stderr = out, out
	if held != nil {
		cmd.ExtraFiles = []*os.File{held}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: syscall.CLONE_NEWNS}
	if own {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	from, _ := out.Seek(0, io.SeekEnd)
	if err := cmd.Start(); err != nil {
		return forbidden(own, err)
	}
	err = cmd.Wait()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	if said := lastLine(output, from); said != "" {
		err = errors.New(said)
	}
	if cmd.ProcessState.ExitCode() == exitRestricted {
		return fmt.Errorf("%w: %w", fs.ErrUnsupported, err)
	}
	return fmt.Errorf("%w: runsc: %w", fs.ErrIO, err)
}

// forbidden says in one line what is missing where the first process cannot
// even be started.
func forbidden(own bool, err error) error {
	if !own {
		return fmt.Errorf("%w: mount namespace: %w", fs.ErrIO, err)
	}
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EUSERS) {
		return fmt.Errorf("%w: user namespaces are forbidden here and hutchd is not root (%v)", fs.ErrUnsupported, errors.Unwrap(err))
	}
	return fmt.Errorf("%w: user namespace: %w", fs.ErrIO, err)
}

// privileged says whether this process may make mount namespaces as it is.
func privileged() bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return false
	}
	return os.Geteuid() == 0 && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// initialUserNS says whether this process is in the system's first user
// namespace, where every user has a meaning.
func initialUserNS() bool {
	m, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(m)), " ") == "0 0 4294967295"
}

// lastLine returns the last line of what was written to a file since from, or
// the first of a panic.
func lastLine(path string, from int64) string {
	data, err := os.ReadFile(path)
	if err != nil || int64(len(data)) < from {
		return ""
	}
	text := strings.TrimSpace(string(data[from:]))
	if at := strings.Index(text, "panic: "); at >= 0 {
		text, _, _ = strings.Cut(text[at:], "\n")
	}
	return text[strings.LastIndexByte(text, '\n')+1:]
}
