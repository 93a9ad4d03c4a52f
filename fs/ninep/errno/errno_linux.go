package errno

import "syscall"

// Linux returns the number that Linux has for e.
func Linux(e syscall.Errno) uint32 {
	if e == 0 {
		return uint32(syscall.EIO)
	}
	return uint32(e)
}

// Local returns the error that has the number n on Linux.
func Local(n uint32) syscall.Errno {
	if n == 0 {
		return syscall.EIO
	}
	return syscall.Errno(n)
}
