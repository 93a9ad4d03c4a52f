package aggd

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Harden gives up what the process does not need: the descriptors it inherited
// beyond the first three, and the way to more privileges by running a program.
// What is given up is only gone for a program that starts with it gone, so the
// process runs itself again, once.
func Harden() error {
	done, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if done == 1 {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("own program: %w", err)
	}
	runtime.LockOSThread() // what follows is the thread's until the exec
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("inherited descriptors: %w", err)
	}
	return fmt.Errorf("%s: %w", self, syscall.Exec(self, os.Args, os.Environ()))
}
