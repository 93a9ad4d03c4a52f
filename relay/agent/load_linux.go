package agent

import "syscall"

const (
	prCapbsetDrop  = 24
	capSysResource = 24
)

// keepRoom has the agent alone be over the limits of the guest's processes, if
// its host gave it the right to: nothing that it starts gets it too. So a
// guest that is full of processes can still be told to end some.
func keepRoom() { syscall.AllThreadsSyscall(syscall.SYS_PRCTL, prCapbsetDrop, capSysResource, 0) }
