package vmm

import (
	"context"
	"math"
	"net"

	"hutch/vmm/image"
)

// A Driver turns a Spec into a machine.
type Driver interface {
	Name() string
	// Probe really tries whether machines can be had here, and returns a few
	// words on how, or the reason why not. It may keep its answer.
	Probe(ctx context.Context) (string, error)
	// Start returns when the machine runs, which is before its guest is up.
	// When ctx ends first, or a step fails, nothing is left behind.
	Start(ctx context.Context, s Spec) (Machine, error)
	// Adopt returns the machine that an earlier process started for s, given
	// that machine's State, or nil where nobody could note that; or the reason
	// why it is no more, and then has cleaned up after it. A machine that runs,
	// but whose guest cannot reach us, comes with the reason for that.
	// The machine may be paused.
	Adopt(ctx context.Context, s Spec, state []byte) (Machine, error)
	// Restore starts a machine that goes on where the one was whose Save wrote
	// dir: with its memory, but with the name, folders and ports of s, and with
	// new processes. It runs, whether or not the saved one was paused. s.Layer
	// and s.Work are as they were at the Save, or copies of that; the rest of s
	// but its names is the same. The guest has lost its connections, and dials
	// again. dir is only read, by any number of machines, and not after Restore
	// has returned. As for Start, what fails leaves nothing behind.
	Restore(ctx context.Context, s Spec, dir string) (Machine, error)
}

// A KernelBooter is a Driver whose machines boot a kernel of their own. It has a
// clock and a host name that the host must set through the guest's agent.
type KernelBooter interface {
	Boots()
}

// Virtual is what drivers of virtual machines have alike: their machines boot a
// kernel, and their guests can see folders of the host.
type Virtual struct{}

// Boots makes the driver a KernelBooter.
func (Virtual) Boots() {}

// Mounts makes the driver a Mounter.
func (Virtual) Mounts() bool { return true }

// Sockets says that guests reach no socket of the host: it is their own kernel that looks
// who listens.
func (Virtual) Sockets() bool { return false }

// Enforces says that memory and whole processors are those of the machine, and
// that its init (relay/boot) limits processes.
func (Virtual) Enforces(key string, c Config) string {
	switch {
	case key == "ram", key == "cpus" && c.CPUs == math.Trunc(c.CPUs):
		return "machine"
	case key == "pids":
		return "guest"
	}
	return ""
}

// A DriverPrograms is a Driver that tells which programs of the host its machines
// begin with, as its own and the guest's. A machine keeps those, also when the
// host's are replaced or when it is restored: so status can say that they are old.
type DriverPrograms interface {
	// Programs returns what a machine begins with now: by its name in a word,
	// the SHA-256 of its content.
	Programs() (map[string]string, error)
}

// A MachinePrograms is a Machine of a DriverPrograms.
type MachinePrograms interface {
	// Programs returns what the machine began with, as far as that is known.
	Programs() map[string]string
}

// A Machine runs one VM.
type Machine interface {
	// Done is closed when the machine has ended and nothing of it is left.
	Done() <-chan struct{}
	// Err says why the machine ended: nil if the guest shut itself down, else
	// a text like "sandbox ended: signal killed". It is valid after Done.
	Err() error
	// Stop asks the guest's init to end, and returns when the machine has
	// ended or ctx has.
	Stop(ctx context.Context) error
	// Kill ends the machine, and returns when it has ended or ctx has.
	Kill(ctx context.Context) error
	// Pause stops the guest: until Resume nothing of it runs, or changes its
	// layer or its workspace. It can be killed, but not stopped. Pausing a
	// paused machine does nothing, nor does resuming one that runs.
	Pause(ctx context.Context) error
	// Resume lets the guest go on.
	Resume(ctx context.Context) error
	// Save writes what Restore needs of a paused machine, memory and all, into
	// the folder dir, which is empty. The machine stays paused, also when this
	// fails, and is the caller's to kill or to resume; a guest that is resumed
	// may have lost its connections, and then dials again. It is the caller's
	// to see to it that what is in dir gets onto the disk.
	Save(ctx context.Context, dir string) error
	// Release lets the machine run on without this process.
	Release()
	// PIDs returns this machine's processes on the host, the main one first.
	PIDs() []int
	// State returns JSON that Adopt finds the machine by.
	State() []byte
}

// A Spec says what machine to start. All paths are absolute.
type Spec struct {
	Name     string
	Hostname string
	Image    image.Image
	Env      []string // K=V, for the guest's init and what it starts
	Kernel   string   // the file of the kernel to boot, where the driver boots one; "": the driver's own
	Net      string   // NetProxy or none
	RAM      int64    // bytes; 0: as the driver likes
	CPUs     int      // that the guest sees; 0: all
	PIDs     int      // most processes and threads of a user in the guest
	Enter    []string // the machine's control group, for cgroup.Enter in its first process
	Dir      string   // a folder for the driver's own files; it is there, and empty at Start
	Layer    string   // a folder for what the guest writes outside its workspace
	Work     string   // the guest's /workspace
	Mounts   []Mount  // of a driver that is a Mounter
	Ports    string   // a folder for the sockets that the guest dials
	Serial   string   // a file: what the guest's init prints
	Log      string   // a file: what the driver's own processes print
	// Conn takes each connection that the guest makes, with the port it
	// dialled. It returns at once, and the next one can be made.
	Conn func(port uint32, c net.Conn)
	// Refused is told of connections that the driver did not take, and why. It
	// may wait.
	Refused func(port uint32, why string)
}

// The ports that a guest may dial.
const (
	PortAgent = 5000 // the agent, serving exec and root; goes to the VM's guest.Guest
	PortMCP   = 5002 // MCP frames; goes to Sidecar.Conn
	PortProxy = 5003 // HTTP, as to a proxy, where the VM's network is NetProxy; goes to Sidecar.Conn
)

// Ports are all ports. Spec.Listen returns those that one machine has.
var Ports = []uint32{PortAgent, PortMCP, PortProxy}
