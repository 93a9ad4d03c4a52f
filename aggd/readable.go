package aggd

import (
	"os"

	"golang.org/x/sys/unix"
)

// readable reports whether a pipe has something to read.
func readable(pipe *os.File) (some bool) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return false
	}
	raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		_, err := unix.Poll(fds, 0)
		some = err == unix.EINTR || fds[0].Revents&unix.POLLIN != 0
	})
	return some
}
