package boot

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Down ends the machine when nothing runs in it any more, with all that was
// written on disk. It does not return.
func (m *Machine) Down() {
	unix.Sync()
	err := unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
	if err == nil {
		// The layer is out of sight, under the root.
		err = unix.Mount("", fmt.Sprintf("/proc/self/fd/%d", m.layer.Fd()), "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
	if err != nil {
		say(fmt.Errorf("the disk is not left clean: %w", err))
		unix.Sync()
	}
	powerOff()
}

// Fail says why there is no machine, and ends it. It does not return.
func Fail(err error) {
	say(err)
	unix.Sync()
	powerOff()
}

func say(err error) {
	fmt.Fprintln(os.Stderr, "hutch:", strings.ReplaceAll(err.Error(), "\n", " "))
}

func powerOff() {
	err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	say(fmt.Errorf("power off: %w", err))
	os.Exit(1) // which the kernel does not survive
}
