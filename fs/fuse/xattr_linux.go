package fuse

import (
	"bytes"
	"context"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Extended attributes of host files are those that users give, user.*. Others
// mean something to the kernel of whoever has the file: a guest would give
// capabilities of the host with security.*, and is given none of the host's.
// Where there are none the answer is EOPNOTSUPP, after which programs ask no more.

const userAttrs = "user."

// attr does do by the path of a descriptor if it is to be asked about name.
func (n *hostNode) attr(name string, do func(path string) error) syscall.Errno {
	if !strings.HasPrefix(name, userAttrs) {
		return syscall.EOPNOTSUPP
	}
	return n.with(func(fd int) error { return do(procPath(fd)) })
}

func (n *hostNode) Getxattr(_ context.Context, name string, dest []byte) (size uint32, errno syscall.Errno) {
	errno = n.attr(name, func(path string) error {
		got, err := unix.Getxattr(path, name, dest)
		size = uint32(max(got, 0))
		return err
	})
	return size, errno
}

func (n *hostNode) Setxattr(_ context.Context, name string, value []byte, flags uint32) syscall.Errno {
	return n.attr(name, func(path string) error { return unix.Setxattr(path, name, value, int(flags)) })
}

func (n *hostNode) Removexattr(_ context.Context, name string) syscall.Errno {
	return n.attr(name, func(path string) error { return unix.Removexattr(path, name) })
}

func (n *hostNode) Listxattr(_ context.Context, dest []byte) (size uint32, errno syscall.Errno) {
	errno = n.with(func(fd int) error {
		all := make([]byte, maxAttrs)
		got, err := unix.Listxattr(procPath(fd), all)
		if err != nil {
			return err
		}
		var names []byte
		for name := range bytes.SplitAfterSeq(all[:got], []byte{0}) {
			if bytes.HasPrefix(name, []byte(userAttrs)) {
				names = append(names, name...)
			}
		}
		if size = uint32(len(names)); len(dest) > 0 && copy(dest, names) < len(names) {
			return unix.ERANGE
		}
		return nil
	})
	return size, errno
}

const maxAttrs = 64 << 10 // the kernel's limit of a list
