package confine

import (
	"crypto/rand"
	"errors"
	"os"
	"slices"
	"sync"
	"syscall"

	"hutch/fs/loneuser"
)

// spaces are the namespaces that the process has for itself.
const spaces = ownPIDs | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWCGROUP

// Attributes returns what a process is started with: as much as this machine
// gives. The program is to be executed by descriptor: its user may not reach the
// program's folder.
func Attributes() *syscall.SysProcAttr {
	return attributes(namespaces())
}

// attributes returns those with the namespaces of flags. In a user namespace the
// process is not root, who would have capabilities there.
func attributes(flags uintptr) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM, Cloneflags: flags}
	if id := loneuser.Of(rand.Text()); id != 0 {
		attr.Credential = &syscall.Credential{Uid: id, Gid: id}
	}
	if flags&syscall.CLONE_NEWUSER != 0 {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: loneuser.Nobody, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: loneuser.Nobody, HostID: os.Getegid(), Size: 1}}
	}
	return attr
}

// namespaces returns the flags of those that hutchd may make: a user namespace too
// where there is no user for the process. It finds out by starting a program that
// does not exist.
var namespaces = sync.OnceValue(func() uintptr {
	want := uintptr(spaces)
	if loneuser.Of("") == 0 {
		want |= syscall.CLONE_NEWUSER
	}
	for _, flags := range []uintptr{want, want &^ syscall.CLONE_NEWCGROUP} {
		p, err := os.StartProcess("/proc/self/no-program", []string{"none"}, &os.ProcAttr{Sys: attributes(flags)})
		if errors.Is(err, os.ErrNotExist) {
			return flags
		}
		if err == nil {
			p.Kill()
			p.Wait()
		}
	}
	return 0
})

// Lacking returns what of the confinement this machine does not give, in a word
// each, with the reason.
func Lacking() []string {
	var lacks []string
	if namespaces() == 0 {
		lacks = append(lacks, "user, namespaces, capabilities: hutchd may not change its user or make namespaces")
	}
	return slices.Concat(lacks, kernelLacks())
}
