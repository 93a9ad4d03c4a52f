package fuse

import (
	"context"
	"os"
	"syscall"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	gofuse "github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A hostFile is an open file of a host folder. Where the kernel allows, it
// reads and writes the file by itself (PassthroughFd).
type hostFile struct {
	*gofs.LoopbackFile
	s *Server
	f *os.File
}

// hostFile keeps an open descriptor.
func (s *Server) hostFile(fd int) (*hostFile, error) {
	f := os.NewFile(uintptr(fd), "")
	h := &hostFile{LoopbackFile: gofs.NewLoopbackFileFromOS(f), s: s, f: f}
	if !s.keep(h) {
		f.Close()
		return nil, syscall.ECONNABORTED
	}
	return h, nil
}

func (h *hostFile) Close() error { return h.f.Close() }

// An opened answers for a file that may have no name any more.
type opened interface {
	with(do func(fd int) error) syscall.Errno
}

func (h *hostFile) with(do func(fd int) error) syscall.Errno {
	sc, err := h.f.SyscallConn()
	if err != nil {
		return syscall.EBADF
	}
	errno := syscall.EBADF
	sc.Control(func(fd uintptr) { errno = gofs.ToErrno(do(int(fd))) })
	return errno
}

func (h *hostFile) Release(context.Context) syscall.Errno {
	h.s.drop(h)
	return 0
}

// Ioctl is not passed on: its argument can be a descriptor number, which
// would mean one of this process.
func (h *hostFile) Ioctl(context.Context, uint32, uint64, []byte, []byte) (int32, syscall.Errno) {
	return 0, syscall.ENOTTY
}

func (n *hostNode) Open(ctx context.Context, flags uint32) (f gofs.FileHandle, how uint32, errno syscall.Errno) {
	errno = n.with(ctx, func(fd int) (err error) {
		f, err = n.reopen(fd, flags)
		return err
	})
	return f, gofuse.FOPEN_NOFLUSH, errno
}

// reopen opens the file of a descriptor for use. It is known by now to be
// what the kernel asked for, and not a pipe or device in its place.
func (n *hostNode) reopen(fd int, flags uint32) (*hostFile, error) {
	if n.id.kind != unix.S_IFREG {
		return nil, unix.ENXIO
	}
	open, err := unix.Open(procPath(fd), hostFlags(flags), 0)
	if err != nil {
		return nil, err
	}
	return n.f.s.hostFile(open)
}

// hostFlags keeps the flags that mean the same on the host.
func hostFlags(flags uint32) int {
	const known = unix.O_ACCMODE | unix.O_TRUNC | unix.O_APPEND | unix.O_DIRECT | unix.O_SYNC | unix.O_DSYNC
	return int(flags)&known | unix.O_CLOEXEC | unix.O_NOCTTY
}

// A hostListing is an open directory of a host folder. Numbers of entries
// become those of the tree.
type hostListing struct {
	hostStream
	n  *hostNode
	fd int // the stream's
}

type hostStream interface {
	gofs.FileReaddirenter
	gofs.FileSeekdirer
	gofs.FileReleasedirer
	gofs.FileFsyncdirer
}

func (n *hostNode) OpendirHandle(ctx context.Context, _ uint32) (l gofs.FileHandle, _ uint32, errno syscall.Errno) {
	errno = n.with(ctx, func(fd int) error {
		dir, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		stream, errno := gofs.NewLoopbackDirStreamFd(dir)
		if errno != 0 {
			unix.Close(dir)
			return errno
		}
		h := &hostListing{stream.(hostStream), n, dir}
		if !n.f.s.keep(h) {
			h.Close()
			return syscall.ECONNABORTED
		}
		l = h
		return nil
	})
	return l, 0, errno
}

func (l *hostListing) Close() error {
	l.hostStream.Releasedir(context.Background(), 0)
	return nil
}

func (l *hostListing) with(do func(fd int) error) syscall.Errno { return gofs.ToErrno(do(l.fd)) }

func (l *hostListing) Releasedir(context.Context, uint32) { l.n.f.s.drop(l) }

func (l *hostListing) Readdirent(ctx context.Context) (*gofuse.DirEntry, syscall.Errno) {
	e, errno := l.hostStream.Readdirent(ctx)
	if e != nil {
		e.Ino = hostIno(l.n.id.dev, e.Ino)
	}
	return e, errno
}

var (
	_ gofs.NodeOpener          = (*hostNode)(nil)
	_ gofs.NodeOpendirHandler  = (*hostNode)(nil)
	_ gofs.FilePassthroughFder = (*hostFile)(nil)
	_ gofs.FileReleaser        = (*hostFile)(nil)
	_ gofs.FileIoctler         = (*hostFile)(nil)
)
