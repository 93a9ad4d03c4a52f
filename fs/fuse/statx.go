package fuse

import (
	"context"
	"syscall"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	gofuse "github.com/hanwen/go-fuse/v2/fuse"
)

const (
	statBasic = 0x7ff // the fields that stat has, in a mask of statx
	statBirth = 0x800
)

// Statx is asked when a program wants more than stat gives. Made-up files have
// no more; to say that there is no such call would end it for all others.
func (e *entry) Statx(ctx context.Context, f gofs.FileHandle, _, _ uint32, out *gofuse.StatxOut) syscall.Errno {
	var attr gofuse.AttrOut
	errno := e.Getattr(ctx, f, &attr)
	setStatx(&out.Statx, &attr.Attr)
	return errno
}

// setStatx gives what stat has.
func setStatx(x *gofuse.Statx, a *gofuse.Attr) {
	x.Mask = statBasic
	x.Mode, x.Nlink, x.Uid, x.Gid = uint16(a.Mode), a.Nlink, a.Uid, a.Gid
	x.Ino, x.Size, x.Blocks = a.Ino, a.Size, a.Blocks
	x.Atime = gofuse.SxTime{Sec: a.Atime, Nsec: a.Atimensec}
	x.Mtime = gofuse.SxTime{Sec: a.Mtime, Nsec: a.Mtimensec}
	x.Ctime = gofuse.SxTime{Sec: a.Ctime, Nsec: a.Ctimensec}
}
