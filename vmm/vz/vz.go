// Package vz runs VMs as virtual machines of macOS, by its Virtualization
// framework, with a Linux kernel of their own.
//
// A machine is the same as one of the QEMU driver (vmm/qemu): the same kernel
// and init, the image as a read-only disk, a disk for what the VM writes over it,
// a serial console. Its ports are the framework's virtio sockets, on which the
// guest dials the host; the workspace is served over one of those connections.
//
// The framework keeps machines in the process that made them: they end with hutchd,
// so that nothing is ever adopted. A program that uses it must be signed, with the
// entitlement com.apple.security.virtualization; an ad-hoc signature will do.
package vz

import "hutch/vmm"

// A Config says what a Driver runs.
type Config struct {
	Guest   string   // the guest's program, static, for Linux on this machine's processor
	Dir     string   // a folder of the driver's own
	Kernels []string // folders that have boot/vmlinuz-RELEASE and modules; not compressed, on arm64
}

// A Driver starts virtual machines.
type Driver struct {
	vmm.Virtual
	cfg Config
}

// New returns a driver. What is missing for it to work, Probe and Start tell.
func New(cfg Config) *Driver { return &Driver{cfg: cfg} }

// Name returns "vz".
func (d *Driver) Name() string { return "vz" }
