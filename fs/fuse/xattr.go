package fuse

import (
	"context"
	"syscall"
)

// Made-up files have no extended attributes.

func (e *entry) Getxattr(context.Context, string, []byte) (uint32, syscall.Errno) {
	return 0, syscall.EOPNOTSUPP
}

func (e *entry) Setxattr(context.Context, string, []byte, uint32) syscall.Errno {
	return syscall.EOPNOTSUPP
}

func (e *entry) Removexattr(context.Context, string) syscall.Errno { return syscall.EOPNOTSUPP }

func (e *entry) Listxattr(context.Context, []byte) (uint32, syscall.Errno) {
	return 0, syscall.EOPNOTSUPP
}
