// Package vmm keeps the sandbox VMs: a table of them, their states, their
// configuration and what of them is on disk. It starts machines through
// drivers (vmm/gvisor, vmm/qemu, vmm/vz, and for tests vmm/vmmtest) and knows
// nothing of files as an interface.
//
// A VM lives in STATE/vm/NAME, or, if it was anonymous once, in the folder of
// the number that it had; its state file says what it is called:
//
//	config      key value lines, as their writer left them
//	config.bad  the last config that did not parse, with the meaning of config in force
//	env/        one file a variable
//	work/       the guest's /workspace
//	layer/      what the guest wrote elsewhere; the driver's to fill
//	snap/       snapshots: copies of work and layer, see package snapshot
//	reverting/  what work and layer are about to be; only while a revert is under way
//	undoing     what is being undone; only while it is
//	saved/      what the machine of a suspended VM was; see suspend.go
//	restoring/  the same, while a machine is restored from it
//	variables   what the machine was given, while its memory is there; see variables.go
//	ports/      the sockets that the guest dials
//	machine/    the driver's own files while the machine runs
//	log/        serial, process
//	state       JSON: the state, why, since when, and what the driver needs to find the machine again
//
// One goroutine owns each VM and does everything that changes it; verbs post
// to it and wait. A cancelled wait stops the waiting, not the work. Only the
// table has a lock that VMs share, and no VM's lock is held across a call.
//
// Nothing of a running VM lives in this process alone: after it was killed,
// Open finds each VM again, running if its machine still runs, and suspended
// if that was saved.
package vmm
