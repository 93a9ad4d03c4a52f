// Runsc is gVisor's, with one thing more: a guest connects to sockets of the host in
// those of its mounts alone that the configuration names. gVisor has one flag for all.
package main

import (
	"os"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/lisafs"
	"gvisor.dev/gvisor/pkg/seccomp"
	"gvisor.dev/gvisor/runsc/cli/maincli"
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/flag"
	"gvisor.dev/gvisor/runsc/fsgofer"
	"gvisor.dev/gvisor/runsc/fsgofer/extension"
)

// annotation has the sources of the mounts whose sockets are open, a NUL between them.
const annotation = "hutch.sockets"

// named is the flag by which a caller is sure to have this program: gVisor's own ends
// with an error.
const named = "--named-sockets"

func main() {
	os.Args = slices.DeleteFunc(os.Args, func(a string) bool { return a == named })
	extension.Register(&sockets{})
	maincli.Main()
}

// sockets closes the host's sockets in mounts.
type sockets struct{ closed fsgofer.Config }

func (*sockets) Name() string { return "sockets" }

// SeccompRules adds none. It is called before there are any: then the ids can still be
// asked for.
func (s *sockets) SeccompRules() seccomp.SyscallRules {
	s.closed = fsgofer.Config{
		HostUDS:            config.HostUDSNone,
		DonateMountPointFD: flag.Get(flag.Lookup("directfs").Value).(bool),
		RUID:               unix.Getuid(), EUID: unix.Geteuid(),
		RGID: unix.Getgid(), EGID: unix.Getegid(),
	}
	return seccomp.NewSyscallRules()
}

// TryHandleMount serves a mount as gVisor itself does, but for sockets, unless it is
// named. The root, of which m is nil, never is. A configuration without the annotation is
// of a hutchd that had gVisor's own runsc.
func (s *sockets) TryHandleMount(spec *specs.Spec, m *specs.Mount, _ string, readonly bool) (lisafs.ConnectionImpl, lisafs.ConnectionOpts, error) {
	open, names := spec.Annotations[annotation]
	if !names || m != nil && slices.Contains(strings.Split(open, "\x00"), m.Source) {
		return nil, lisafs.ConnectionOpts{}, nil
	}
	return fsgofer.NewConnectionImpl(&s.closed), fsgofer.ConnectionOpts(readonly), nil
}
