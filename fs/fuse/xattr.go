package fuse

import (
	"context"
	"syscall"

	gofs "github.com/hanwen/go-fuse/v2/fs"
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

var (
	_ gofs.NodeGetxattrer    = (*entry)(nil)
	_ gofs.NodeSetxattrer    = (*entry)(nil)
	_ gofs.NodeRemovexattrer = (*entry)(nil)
	_ gofs.NodeListxattrer   = (*entry)(nil)
)
