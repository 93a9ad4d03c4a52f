package fuse

import (
	"context"
	"syscall"

	"hutch/fs"
)

// Made-up files have no extended attributes. To give a scratch file some is no
// error, as to change its mode: a program does so before it renames the file.

func (e *entry) Getxattr(context.Context, string, []byte) (uint32, syscall.Errno) {
	return 0, syscall.EOPNOTSUPP
}

func (e *entry) Setxattr(ctx context.Context, _ string, _ []byte, _ uint32) syscall.Errno {
	if fs.IsScratch(e.node(ctx)) {
		return 0
	}
	return syscall.EOPNOTSUPP
}

func (e *entry) Removexattr(context.Context, string) syscall.Errno { return syscall.EOPNOTSUPP }

func (e *entry) Listxattr(context.Context, []byte) (uint32, syscall.Errno) {
	return 0, syscall.EOPNOTSUPP
}
