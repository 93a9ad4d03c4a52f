package agent

import "syscall"

// tasks returns how many processes and threads there are.
func tasks() int {
	var info syscall.Sysinfo_t
	if err := syscall.Sysinfo(&info); err != nil {
		return 0
	}
	return int(info.Procs)
}

const (
	prCapbsetDrop  = 24
	capSysResource = 24
)

// keepRoom has the agent alone be over the limits of the guest's processes, if
// its host gave it the right to: nothing that it starts gets it too. So a
// guest that is full of processes can still be told to end some.
func keepRoom() { syscall.AllThreadsSyscall(syscall.SYS_PRCTL, prCapbsetDrop, capSysResource, 0) }
