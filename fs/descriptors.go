package fs

import "syscall"

// Descriptors returns how many descriptors this process may have: Go takes as
// many as it can get when it starts.
func Descriptors() uint64 {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 1024
	}
	return uint64(l.Cur)
}
