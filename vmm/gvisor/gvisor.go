// Package gvisor runs VMs in gVisor sandboxes, by its runsc, which is used as
// an OCI runtime (vmm/gvisor/runsc pins and builds it). It needs Linux, and
// either the superuser or user namespaces; KVM and a network it does not need.
//
// One runsc command is run for each machine, "run -detach" or "restore
// -detach", in a mount namespace of the machine's own, and for an ordinary
// user in a user namespace too. There the guest's root is mounted: an overlay of the VM's
// layer on the image. The namespace goes with the machine's last process, so
// no mount can be left behind, and killing two processes is all that ending a
// machine takes.
//
// A machine is a sandbox process, which runs the guest, and a gofer, which
// opens files for it. Both outlive hutchd. They are watched by pidfd.
//
// Limits. For an ordinary user only root exists in the guest as far as files
// of the layer and the workspace go: chown to others fails, and other users can
// write to /tmp alone. A program of the machine that is replaced stays the old
// one for the guests that run. What a guest writes to its init's
// output fills log/serial.
//
// Memory and the time of processors are limited by the machine's control group
// (vmm/cgroup), where there is one: whatever the guest has, files in its memory
// too, is memory of the sandbox and its stubs. When there is no more, the
// kernel kills the sandbox. Processes are limited by gVisor's RLIMIT_NPROC, for
// each user of the guest; the agent, PID 1, alone is not bound by it. The
// guest's processors are by affinity.
package gvisor

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"hutch/vmm"
)

// A Config says what a Driver runs.
type Config struct {
	Runsc    string // the runsc program, built static
	Guest    string // the guest's program, static: "hutch-guest init" is the guest's PID 1
	Dir      string // a folder of the driver's own, on the file system of the VMs' layers
	Platform string // gVisor's platform; "": the first of systrap and ptrace that works
}

// A Driver starts sandboxes.
type Driver struct {
	cfg Config

	programsMu sync.Mutex        // held while the driver's folder of programs is made or shared, and guards what follows
	looked     map[string]looked // cfg's programs, as they were when they were looked at last

	chosen atomic.Pointer[string] // the platform that works; nil: none was found yet

	probing chan struct{} // holds a token while somebody probes, which guards what follows
	how     string        // of the last probe that succeeded
	failed  error         // of the last probe, if that did not
	at      time.Time     // of the last probe
}

// New returns a driver. What is missing for it to work, Probe and Start tell.
func New(cfg Config) *Driver {
	return &Driver{cfg: cfg, looked: make(map[string]looked), probing: make(chan struct{}, 1)}
}

// Mounts says that guests can see folders of the host.
func (d *Driver) Mounts() bool { return true }

// Sockets says that guests can connect to sockets there, if a mount says so.
func (d *Driver) Sockets() bool { return true }

// Enforces says that gVisor itself limits the processes of each user in the
// guest, and that whole processors can be had by affinity.
func (d *Driver) Enforces(key string, c vmm.Config) string {
	switch {
	case key == "pids":
		return "gvisor"
	case key == "cpus" && c.CPUs == math.Trunc(c.CPUs):
		return "affinity"
	}
	return ""
}

// Name returns "gvisor".
func (d *Driver) Name() string { return "gvisor" }
