// Package qemu runs VMs as virtual machines of QEMU, with a Linux kernel of
// their own: by KVM where an ordinary kernel boots under it, else by TCG,
// which translates the guest's instructions and needs nothing of the system.
//
// A machine is one QEMU process. Where hutchd is root it has a user of its
// own, without files, powers or a network: every file that it needs it gets as
// an open descriptor. Its namespaces are its own, where hutchd may make any, and
// so is its root, in which there are programs of the system alone (enter.go). The
// machine has no devices but two disks, the image and what the
// VM writes over it (a qcow2 file in the VM's layer); a serial console; a source
// of random numbers; and what carries every connection that the guest makes: a
// socket device of its own, where the host has vhost-vsock (relay/vsock), else
// one virtio-serial port (relay/line). The workspace and the folders of the host
// that the image "host" or a mount shows are served to the guest over one of those
// connections (vmm/qemu/share).
//
// The process outlives hutchd, and is watched by pidfd. It is told what to do
// by QMP, on a socket in the machine's folder: one client at a time, the next
// hutchd after this one.
//
// Limits. Only machines as the host's are run, and only amd64. What the VM
// writes outside its workspace may come to 16 GiB.
package qemu

import (
	"os"
	"path/filepath"
	"sync"
	"time"

	"hutch/vmm"
)

// A Config says what a Driver runs.
type Config struct {
	Guest   string   // the guest's program, static
	Dir     string   // a folder of the driver's own
	Kernels []string // folders that have boot/vmlinuz-RELEASE and modules
	Accel   string   // "kvm" or "tcg"; "": kvm where it works
}

// A Driver starts virtual machines.
type Driver struct {
	vmm.Virtual

	cfg      Config
	exchange *exchange // AF_VSOCK, where machines are on it

	filesMu sync.Mutex  // held while files that machines share are made, and guards what follows
	guest   os.FileInfo // of the guest's program when it was read last
	sum     string      // SHA-256 of it

	probing chan struct{} // holds a token while somebody probes, which guards what follows
	chosen  string        // the accelerator
	without error         // why that is not KVM
	how     string        // of the last probe that succeeded
	failed  error         // of the last probe, if that did not
	at      time.Time     // of the last probe
}

// New returns a driver. What is missing for it to work, Probe and Start tell.
func New(cfg Config) *Driver {
	return &Driver{cfg: cfg, exchange: newExchange(cfg.Dir), probing: make(chan struct{}, 1)}
}

// Name returns "qemu".
func (d *Driver) Name() string { return "qemu" }

func (d *Driver) path(name string) string { return filepath.Join(d.cfg.Dir, name) }
