package image

import (
	"os"
	"os/exec"
	"syscall"
)

// asRoot has an ordinary user's cmd see that user's files as root's, as the
// guest is to see them.
func asRoot(cmd *exec.Cmd) {
	if os.Geteuid() == 0 {
		return
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
}
