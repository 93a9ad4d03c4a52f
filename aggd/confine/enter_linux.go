package confine

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// Enter confines this process for good, with the descriptors 0 to last. What the
// kernel has no part of is left out; what it has and refuses is an error.
func Enter(last int) error {
	net.DefaultResolver.PreferGo = true // the C library's would load more
	if err := closeOthers(last); err != nil {
		return fmt.Errorf("inherited descriptors: %w", err)
	}
	if err := restrictFiles(); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	if err := restrictCalls(); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	attack()
	return nil
}

// attack is what somebody does who has taken over the process: nothing but in
// programs built for the test of that.
var attack = func() {}

// closeOthers closes the descriptors above last, but for the runtime's own.
func closeOthers(last int) error {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd <= last || fd == int(dir.Fd()) {
			continue
		}
		to, err := os.Readlink("/proc/self/fd/" + name)
		if err == nil && !strings.HasPrefix(to, "anon_inode:[event") { // of epoll
			syscall.Close(fd)
		}
	}
	return nil
}

// The files that are left, to be read: those by which the resolver and TLS know
// the world.
var (
	readable = []string{
		"/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols",
		"/etc/mime.types", "/etc/localtime", "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size",
	}
	browsable = []string{
		"/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates", "/usr/share/pki",
		"/var/lib/ca-certificates", "/usr/share/zoneinfo", "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager",
	}
)

// restrictFiles leaves the files above, and nobody else's signals and abstract
// sockets.
func restrictFiles() error {
	files := readable
	if to, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil {
		files = append(files, to)
	}
	err := landlock.V5.BestEffort().RestrictPaths(landlock.ROFiles(files...).IgnoreIfMissing(), landlock.RODirs(browsable...).IgnoreIfMissing())
	return errors.Join(err, landlock.V6.BestEffort().RestrictScoped())
}

// absent has the C library use clone in place of clone3, whose flags a filter
// cannot see.
const absent = seccomp.ActionErrno | seccomp.Action(syscall.ENOSYS)

// restrictCalls leaves the system calls in the table, in all threads, and has the
// others fail.
func restrictCalls() error {
	if !seccomp.Supported() {
		return nil
	}
	return seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Flag: seccomp.FilterFlagTSync, Policy: seccomp.Policy{
		DefaultAction: seccomp.ActionErrno,
		Syscalls: []seccomp.SyscallGroup{
			{Action: seccomp.ActionAllow, Names: known(calls), NamesWithCondtions: limited},
			{Action: absent, Names: known([]string{"clone3"})},
		},
	}})
}

// kernelLacks returns what Enter leaves out with this kernel.
func kernelLacks() []string {
	var lacks []string
	switch abi, err := llsys.LandlockGetABIVersion(); {
	case err != nil || abi < 1:
		lacks = append(lacks, "landlock: the kernel has none")
	case abi < 6:
		lacks = append(lacks, fmt.Sprintf("landlock: version %d of the kernel does not limit signals and abstract sockets", abi))
	}
	if !seccomp.Supported() {
		lacks = append(lacks, "seccomp: the kernel has none")
	}
	return lacks
}
