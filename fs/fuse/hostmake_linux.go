package fuse

import (
	"context"
	"os"
	"syscall"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	gofuse "github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// made answers a call that makes an entry called name in the directory n.
// What make made is taken back by undo if it cannot be served.
func (n *hostNode) made(ctx context.Context, name string, out *gofuse.EntryOut, make func(dir int) error, undo int) (child *gofs.Inode, errno syscall.Errno) {
	errno = n.with(func(dir int) (err error) {
		if err := make(dir); err != nil {
			return err
		}
		give(ctx, dir, name)
		if child, err = n.child(ctx, dir, name, out); err != nil {
			unix.Unlinkat(dir, name, undo)
		}
		return err
	})
	return child, errno
}

// give makes the client the owner of what root made for it.
func give(ctx context.Context, dir int, name string) {
	client, ok := gofuse.FromContext(ctx)
	if ok && os.Geteuid() == 0 && client.Uid != 0 {
		unix.Fchownat(dir, name, int(client.Uid), int(client.Gid), unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH)
	}
}

// Create makes a file and opens it. One that has come into being meanwhile
// is not opened without a look at what it is: the kernel is told to look.
func (n *hostNode) Create(ctx context.Context, name string, flags, mode uint32, out *gofuse.EntryOut) (*gofs.Inode, gofs.FileHandle, uint32, syscall.Errno) {
	return n.create(ctx, name, flags, mode, out, func(dir int) (int, error) {
		fd, err := unix.Openat(dir, name, hostFlags(flags)|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, mode&0o7777)
		if err == unix.EEXIST && flags&unix.O_EXCL == 0 {
			err = unix.ESTALE
		}
		return fd, err
	})
}

// Tmpfile makes a file that has no name until it is linked.
func (n *hostNode) Tmpfile(ctx context.Context, flags, mode uint32, out *gofuse.EntryOut) (*gofs.Inode, gofs.FileHandle, uint32, syscall.Errno) {
	return n.create(ctx, "", flags, mode, out, func(dir int) (int, error) {
		return unix.Openat(dir, ".", hostFlags(flags)|int(flags)&unix.O_EXCL|unix.O_TMPFILE, mode&0o7777)
	})
}

// create has open make the file called name and open it.
func (n *hostNode) create(ctx context.Context, name string, flags, mode uint32, out *gofuse.EntryOut, open func(dir int) (int, error)) (child *gofs.Inode, f gofs.FileHandle, how uint32, errno syscall.Errno) {
	var h *hostFile
	errno = n.with(func(dir int) error {
		fd, err := open(dir)
		if err != nil {
			return err
		}
		give(ctx, fd, "")
		if err := exactly(fd, mode); err != nil {
			unix.Close(fd)
			return err
		}
		if h, err = n.f.s.hostFile(fd); err != nil {
			return err
		}
		if child, err = n.inode(ctx, fd, name, out); err != nil {
			n.f.s.drop(h)
			return err
		}
		child.Operations().(*hostNode).addOpen(h, flags)
		return nil
	})
	if errno != 0 {
		return nil, nil, 0, errno
	}
	return child, h, n.f.s.hostOpen(), 0
}

// exactly gives a new file the permissions asked for, from which the kernel
// has taken the client's umask: this process' own takes nothing more.
func exactly(fd int, mode uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&0o777 == mode&0o777 {
		return nil
	}
	return unix.Fchmod(fd, st.Mode&0o7000|mode&0o777)
}

func (n *hostNode) Mkdir(ctx context.Context, name string, mode uint32, out *gofuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	return n.made(ctx, name, out, func(dir int) error {
		if err := unix.Mkdirat(dir, name, mode&0o7777); err != nil {
			return err
		}
		fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil // made, and gone or closed to us
		}
		defer unix.Close(fd)
		return exactly(fd, mode)
	}, unix.AT_REMOVEDIR)
}

// Mknod makes files, pipes and sockets, but no devices.
func (n *hostNode) Mknod(ctx context.Context, name string, mode, _ uint32, out *gofuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFIFO, unix.S_IFSOCK:
	default:
		return nil, syscall.EPERM
	}
	return n.made(ctx, name, out, func(dir int) error { return unix.Mknodat(dir, name, mode, 0) }, 0)
}

func (n *hostNode) Symlink(ctx context.Context, target, name string, out *gofuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	target = n.f.s.stored(n.f.links, target)
	return n.made(ctx, name, out, func(dir int) error { return unix.Symlinkat(target, dir, name) }, 0)
}

func (n *hostNode) Link(ctx context.Context, target gofs.InodeEmbedder, name string, out *gofuse.EntryOut) (child *gofs.Inode, errno syscall.Errno) {
	to, ok := target.(*hostNode)
	if !ok || to.f != n.f {
		return nil, syscall.EXDEV
	}
	errno = n.with(func(dir int) error {
		errno := to.with(func(fd int) error {
			return unix.Linkat(unix.AT_FDCWD, procPath(fd), dir, name, unix.AT_SYMLINK_FOLLOW)
		})
		if errno != 0 {
			return errno
		}
		var err error
		child, err = n.child(ctx, dir, name, out)
		return err
	})
	return child, errno
}

func (n *hostNode) Unlink(ctx context.Context, name string) syscall.Errno {
	return n.with(func(dir int) error { return unix.Unlinkat(dir, name, 0) })
}

func (n *hostNode) Rmdir(ctx context.Context, name string) syscall.Errno {
	return n.with(func(dir int) error { return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) })
}

func (n *hostNode) Rename(ctx context.Context, name string, parent gofs.InodeEmbedder, newname string, flags uint32) syscall.Errno {
	to, ok := parent.(*hostNode)
	switch {
	case !ok || to.f != n.f:
		return syscall.EXDEV
	case flags&^(unix.RENAME_NOREPLACE|unix.RENAME_EXCHANGE) != 0:
		return syscall.EINVAL
	}
	n.f.s.places.moves.Add(1)
	return n.with(func(from int) error {
		errno := to.with(func(dst int) error {
			return unix.Renameat2(from, name, dst, newname, uint(flags))
		})
		return asError(errno)
	})
}

// asError keeps an errno of 0 from becoming an error that is not nil.
func asError(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

func (n *hostNode) Setattr(ctx context.Context, f gofs.FileHandle, in *gofuse.SetAttrIn, out *gofuse.AttrOut) syscall.Errno {
	var errno syscall.Errno
	if h, ok := f.(*hostFile); ok {
		errno = h.with(func(fd int) error { return setHost(fd, in, true) })
	} else {
		errno = n.with(func(fd int) error { return setHost(fd, in, false) })
	}
	if _, sized := in.GetSize(); sized && errno == 0 && in.Valid&gofuse.FATTR_KILL_SUIDGID != 0 {
		errno = n.with(func(fd int) error { return unprivilege(ctx, fd) })
	}
	if errno != 0 {
		return errno
	}
	return n.Getattr(ctx, f, out)
}

// setHost changes what a client asks to change. A descriptor that is not
// open (O_PATH) is reached by its path in /proc, which leads to the very file.
func setHost(fd int, in *gofuse.SetAttrIn, open bool) error {
	path := procPath(fd)
	if mode, ok := in.GetMode(); ok {
		if err := unix.Chmod(path, mode); err != nil {
			return err
		}
	}
	uid, uok := in.GetUID()
	gid, gok := in.GetGID()
	if uok || gok { // what is not asked for is all ones
		if err := unix.Fchownat(fd, "", int(int32(uid)), int(int32(gid)), unix.AT_EMPTY_PATH); err != nil {
			return err
		}
	}
	// Size before times: a new size sets the time of the change.
	if size, ok := in.GetSize(); ok {
		if err := truncate(fd, path, int64(size), open); err != nil {
			return err
		}
	}
	return setTimes(fd, in)
}

func truncate(fd int, path string, size int64, open bool) error {
	if open {
		return unix.Ftruncate(fd, size)
	}
	return unix.Truncate(path, size)
}

func setTimes(fd int, in *gofuse.SetAttrIn) error {
	ts := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_OMIT}}
	atime, aok := in.GetATime()
	mtime, mok := in.GetMTime()
	if aok {
		ts[0] = unix.NsecToTimespec(atime.UnixNano())
	}
	if mok {
		ts[1] = unix.NsecToTimespec(mtime.UnixNano())
	}
	if !aok && !mok {
		return nil
	}
	return unix.UtimesNanoAt(fd, "", ts, unix.AT_EMPTY_PATH)
}
