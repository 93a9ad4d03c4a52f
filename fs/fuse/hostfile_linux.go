package fuse

import (
	"context"
	"os"
	"syscall"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	gofuse "github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"hutch/fs"
)

// A hostFile is an open file of a host folder. Where the kernel allows, it
// reads and writes the file by itself (PassthroughFd).
type hostFile struct {
	*gofs.LoopbackFile
	s  *Server
	f  *os.File
	of *hostNode // of which it is one of the open files

	writes bool // it is open for that
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

func (h *hostFile) Close() error {
	if h.of != nil {
		h.of.removeOpen(h)
		h.s.writers.drop(h)
	}
	return h.f.Close()
}

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
	errno = n.with(func(fd int) error {
		h, err := n.reopen(fd, flags)
		if err != nil {
			return err
		}
		if int(flags)&unix.O_ACCMODE != unix.O_RDONLY {
			h.with(func(fd int) error { return unprivilege(ctx, fd) })
		}
		n.addOpen(h, flags)
		f, how = h, n.f.s.hostOpen()
		return nil
	})
	return f, how, errno
}

// hostOpen returns how the kernel is to use an open file of a host folder: by
// itself where it can, as passing finds, else without pages of its own, which
// would outlive what others write. A kernel that could not map such a file
// keeps pages, and drops them when it sees another size or time.
func (s *Server) hostOpen() uint32 {
	if s.raw.KernelSettings().Flags64()&gofuse.CAP_DIRECT_IO_ALLOW_MMAP == 0 {
		return gofuse.FOPEN_NOFLUSH
	}
	return gofuse.FOPEN_NOFLUSH | gofuse.FOPEN_DIRECT_IO
}

// PassthroughFd finds whether the kernel reads and writes the file by itself,
// as it does for root unless the file system lies on too many others. The
// library, once refused, would ask for no other file any more.
func (h *hostFile) PassthroughFd() (number int, ok bool) {
	h.with(func(fd int) error {
		id, errno := h.s.raw.RegisterBackingFd(&gofuse.BackingMap{Fd: int32(fd)})
		if number, ok = fd, errno == 0; ok {
			h.s.raw.UnregisterBackingFd(id)
		}
		return nil
	})
	return number, ok
}

// passing has the kernel read and write by itself what the library could
// register with it, which it does last: direct I/O would go before.
type passing struct{ gofuse.RawFileSystem }

func (p passing) Open(cancel <-chan struct{}, in *gofuse.OpenIn, out *gofuse.OpenOut) gofuse.Status {
	return pass(out, p.RawFileSystem.Open(cancel, in, out))
}

func (p passing) Create(cancel <-chan struct{}, in *gofuse.CreateIn, name string, out *gofuse.CreateOut) gofuse.Status {
	return pass(&out.OpenOut, p.RawFileSystem.Create(cancel, in, name, out))
}

func (p passing) Tmpfile(cancel <-chan struct{}, in *gofuse.CreateIn, out *gofuse.CreateOut) gofuse.Status {
	return pass(&out.OpenOut, p.RawFileSystem.Tmpfile(cancel, in, out))
}

func pass(out *gofuse.OpenOut, status gofuse.Status) gofuse.Status {
	if out.OpenFlags&gofuse.FOPEN_PASSTHROUGH != 0 {
		out.OpenFlags &^= gofuse.FOPEN_DIRECT_IO
	}
	return status
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

// unprivilege takes the setuid and setgid bits from a file that a client other
// than root is to change: the kernel does so for its own, and takes us for root.
func unprivilege(ctx context.Context, fd int) error {
	client, ok := gofuse.FromContext(ctx)
	if !ok || os.Geteuid() != 0 || client.Uid == 0 {
		return nil
	}
	st, err := statx(fd)
	if err != nil {
		return err
	}
	mode := uint32(st.Mode) & 0o7777
	bits := mode & unix.S_ISUID
	if mode&unix.S_IXGRP != 0 {
		bits |= mode & unix.S_ISGID
	}
	if bits == 0 || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	return unix.Chmod(procPath(fd), mode&^bits)
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
	errno = n.with(func(fd int) error {
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

// Lookup adds to a listing what the kernel may keep and does not have.
func (l *hostListing) Lookup(ctx context.Context, name string, out *gofuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	if _, ok := l.n.f.s.watch.over(l.n, l.fd); !ok || l.n.f.s.watch.fresh(l.n, name) {
		return nil, syscall.ENOENT
	}
	child, err := l.n.child(ctx, l.fd, name, out)
	return child, gofs.ToErrno(err)
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
		e.Ino = fs.HostQid(l.n.id.dev, e.Ino)
	}
	return e, errno
}

var (
	_ gofs.FilePassthroughFder = (*hostFile)(nil)
	_ gofs.FileReleaser        = (*hostFile)(nil)
	_ gofs.FileIoctler         = (*hostFile)(nil)
	_ gofs.FileLookuper        = (*hostListing)(nil)
)
