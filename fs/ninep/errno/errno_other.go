//go:build !linux

package errno

import "syscall"

// numbers has the errors that differ between systems or may do so, with their
// numbers on Linux.
var numbers = map[syscall.Errno]uint32{
	syscall.EPERM: 1, syscall.ENOENT: 2, syscall.EINTR: 4, syscall.EIO: 5,
	syscall.ENXIO: 6, syscall.E2BIG: 7, syscall.EBADF: 9, syscall.ECHILD: 10,
	syscall.EAGAIN: 11, syscall.ENOMEM: 12, syscall.EACCES: 13, syscall.EFAULT: 14,
	syscall.EBUSY: 16, syscall.EEXIST: 17, syscall.EXDEV: 18, syscall.ENODEV: 19,
	syscall.ENOTDIR: 20, syscall.EISDIR: 21, syscall.EINVAL: 22, syscall.ENFILE: 23,
	syscall.EMFILE: 24, syscall.ENOTTY: 25, syscall.ETXTBSY: 26, syscall.EFBIG: 27,
	syscall.ENOSPC: 28, syscall.ESPIPE: 29, syscall.EROFS: 30, syscall.EMLINK: 31,
	syscall.EPIPE: 32, syscall.ERANGE: 34, syscall.ENAMETOOLONG: 36, syscall.ENOSYS: 38,
	syscall.ENOTEMPTY: 39, syscall.ELOOP: 40, syscall.EPROTO: 71, syscall.EOVERFLOW: 75, syscall.EMSGSIZE: 90,
	syscall.EOPNOTSUPP: 95, syscall.ENETUNREACH: 101, syscall.EHOSTUNREACH: 113, syscall.ECONNRESET: 104, syscall.ETIMEDOUT: 110,
	syscall.ECONNREFUSED: 111, syscall.ESTALE: 116, syscall.EDQUOT: 122,
}

// Linux returns the number that Linux has for e, or that of EIO.
func Linux(e syscall.Errno) uint32 {
	if n, ok := numbers[e]; ok {
		return n
	}
	return 5
}

// Local returns the error that has the number n on Linux, or EIO.
func Local(n uint32) syscall.Errno {
	for e, linux := range numbers {
		if linux == n {
			return e
		}
	}
	return syscall.EIO
}
