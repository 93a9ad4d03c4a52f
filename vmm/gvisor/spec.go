//go:build linux

package gvisor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"hutch/vmm"
	"hutch/vmm/image"
)

// configName is the file of a bundle in which runsc looks for its configuration.
const configName = "config.json"

// The parts of an OCI runtime configuration (opencontainers/runtime-spec)
// that are used here.
type (
	ociSpec struct {
		Version     string            `json:"ociVersion"`
		Process     ociProcess        `json:"process"`
		Root        ociRoot           `json:"root"`
		Hostname    string            `json:"hostname"`
		Mounts      []ociMount        `json:"mounts"`
		Linux       ociLinux          `json:"linux"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	ociProcess struct {
		User            ociUser             `json:"user"`
		Args            []string            `json:"args"`
		Env             []string            `json:"env"`
		Cwd             string              `json:"cwd"`
		Capabilities    map[string][]string `json:"capabilities"`
		Rlimits         []ociRlimit         `json:"rlimits"`
		NoNewPrivileges bool                `json:"noNewPrivileges"`
	}
	ociUser struct {
		UID int `json:"uid"`
		GID int `json:"gid"`
	}
	ociRoot struct {
		Path     string `json:"path"`
		Readonly bool   `json:"readonly"`
	}
	ociMount struct {
		Destination string   `json:"destination"`
		Type        string   `json:"type"`
		Source      string   `json:"source"`
		Options     []string `json:"options,omitempty"`
	}
	ociRlimit struct {
		Type string `json:"type"`
		Hard uint64 `json:"hard"`
		Soft uint64 `json:"soft"`
	}
	ociLinux struct {
		Namespaces []ociNamespace `json:"namespaces"`
	}
	ociNamespace struct {
		Type string `json:"type"`
	}
)

// capabilities are what root in the guest may do there: be any user, own and
// read any file, end any process. None of it reaches past the sandbox.
var capabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID",
	"CAP_SETPCAP", "CAP_SETFCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE", "CAP_AUDIT_WRITE",
}

// initCapability is what the agent, the guest's init, keeps from all others:
// with it the limit of processes does not hold.
const initCapability = "CAP_SYS_RESOURCE"

// The places in the guest that this package gives a meaning.
const (
	guestBin   = "/opt/hutch/bin"
	guestPorts = "/run/hutch"
	guestWork  = "/workspace"
	guestInit  = guestBin + "/hutch-guest"
)

// configure returns the OCI configuration of the machine that s asks for.
func (d *Driver) configure(s vmm.Spec) ociSpec {
	caps := make(map[string][]string)
	for _, set := range []string{"bounding", "effective", "permitted"} {
		caps[set] = append([]string{initCapability}, capabilities...)
	}
	c := base(filepath.Join(s.Dir, "rootfs"), guestInit, "init")
	c.Process.Env = s.Env
	c.Process.Capabilities = caps
	c.Process.Rlimits = []ociRlimit{{"RLIMIT_NOFILE", 1 << 20, 1 << 16}, {"RLIMIT_CORE", 0, 0}}
	if n := uint64(s.PIDs); n > 0 {
		c.Process.Rlimits = append(c.Process.Rlimits, ociRlimit{"RLIMIT_NPROC", n, n})
	}
	c.Hostname = s.Hostname
	c.Mounts = append(c.Mounts,
		ociMount{"/sys", "sysfs", "sysfs", []string{"ro", "nosuid", "noexec", "nodev"}},
		ociMount{"/dev/shm", "tmpfs", "tmpfs", []string{"nosuid", "nodev", "mode=1777"}},
		ociMount{"/tmp", "tmpfs", "tmpfs", []string{"nosuid", "nodev", "mode=1777"}},
		bind(guestWork, s.Work, "rw"),
		bind(guestPorts, s.Ports, "ro"),
		bind(guestBin, filepath.Join(s.Dir, programs, shownName), "ro"))
	sockets := []string{s.Ports}
	shared := make(map[string]bool)
	for i, m := range s.Mounts {
		mode := "rw"
		if m.ReadOnly {
			mode = "ro"
		}
		c.Mounts = append(c.Mounts, bind(m.Guest, m.Host, mode))
		if !shared[m.Host] { // at two places a folder is still one
			c.share(fmt.Sprint("mount", i), m.Host)
		}
		shared[m.Host] = true
		if m.Sockets {
			sockets = append(sockets, m.Host)
		}
	}
	c.Annotations[socketsKey] = strings.Join(sockets, "\x00")
	c.show(s.Image.Binds)
	c.share("work", s.Work)
	c.share("ports", s.Ports)
	return c
}

// base returns a configuration that runs args on the root file system root
// with nothing else in it.
func base(root string, args ...string) ociSpec {
	c := ociSpec{
		Version:     "1.0.2",
		Process:     ociProcess{Args: args, Env: []string{}, Cwd: "/", NoNewPrivileges: true},
		Root:        ociRoot{Path: root},
		Annotations: make(map[string]string),
		Mounts:      []ociMount{{"/proc", "proc", "proc", []string{"nosuid", "noexec", "nodev"}}},
	}
	for _, ns := range []string{"pid", "ipc", "uts", "mount", "network"} {
		c.Linux.Namespaces = append(c.Linux.Namespaces, ociNamespace{ns})
	}
	return c
}

func bind(guest, host, mode string) ociMount {
	return ociMount{guest, "bind", host, []string{"rbind", mode, "nosuid", "nodev"}}
}

// show adds read-only views of the machine's folders.
func (c *ociSpec) show(binds []image.Bind) {
	for _, b := range binds {
		c.Mounts = append(c.Mounts, bind(b.Guest, b.Host, "ro"))
	}
	// A mount must come before those below it.
	slices.SortStableFunc(c.Mounts, func(a, b ociMount) int {
		return strings.Count(a.Destination, "/") - strings.Count(b.Destination, "/")
	})
}

// socketsKey is the annotation by which our runsc knows the mounts in which the guest may
// connect to sockets of the host: the sources, a NUL between them.
const socketsKey = "hutch.sockets"

// share says that others change what is in the folder host too, so that the
// guest must look each time. Of the other mounts it remembers what it has seen:
// a program of the machine that is replaced stays the old one for the guests
// that run.
func (c *ociSpec) share(name, host string) {
	hint := "dev.gvisor.spec.mount." + name + "."
	c.Annotations[hint+"source"] = host
	c.Annotations[hint+"type"] = "bind"
	c.Annotations[hint+"share"] = "shared"
}
