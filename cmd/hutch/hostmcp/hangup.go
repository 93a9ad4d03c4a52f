package hostmcp

import "golang.org/x/sys/unix"

// awaitHangup waits until whoever reads what is written to fd is gone. Of a
// file that is for ever.
func awaitHangup(fd int) {
	for {
		poll := []unix.PollFd{{Fd: int32(fd)}} // asks for nothing but what is always told
		if n, err := unix.Poll(poll, -1); n > 0 || err != unix.EINTR {
			return
		}
	}
}
