// Package boot is the init of a virtual machine: it loads modules, makes the root
// file system in which package agent then serves the host, and powers the machine
// off when the agent has ended.
//
// The kernel begins with an archive (vmm/qemu/initrd) that has this program as
// /init, modules, and a Config. The modules are loaded; the disk with the
// image, read-only, and the one for what is written become an overlay, which
// becomes the root; a helper process connects the ports of the host and
// mounts its folders (relay/ports).
//
// The helper is a process of its own because the agent starts programs: Go
// starts one in a way that holds up its own process until the kernel has read
// the program, which, where that is on a folder of the host, only the helper
// can make it do.
//
// What fails is one line on the console, and the end: a machine that cannot be
// reached is of no use.
package boot

// Programs is hutch's own folder in the guest.
const Programs = "/opt/hutch/bin"
