package fuse

import (
	"context"
	"fmt"
	"os"
	"syscall"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"hutch/fs"
)

// renameNoReplace is the kernel's RENAME_NOREPLACE.
const renameNoReplace = 1

// made answers a call that makes an entry called name. Other users may not: the
// file would belong to our user, with what they then wrote.
func (e *entry) made(ctx context.Context, name string, out *gofuse.EntryOut, make func(context.Context) (fs.Node, error)) (child *gofs.Inode, errno syscall.Errno) {
	if client, ok := gofuse.FromContext(ctx); ok && e.s.opt.AllowOther && client.Uid != 0 && int(client.Uid) != os.Geteuid() {
		return nil, syscall.EACCES
	}
	errno = e.s.do(ctx, func(ctx context.Context) error {
		if err := fs.CheckName(name); err != nil {
			return err
		}
		n, err := make(ctx)
		if err != nil {
			return err
		}
		child, err = e.child(ctx, name, n, out)
		return err
	})
	return child, errno
}

func (e *entry) Create(ctx context.Context, name string, flags, mode uint32, out *gofuse.EntryOut) (child *gofs.Inode, f gofs.FileHandle, how uint32, errno syscall.Errno) {
	child, errno = e.made(ctx, name, out, func(ctx context.Context) (fs.Node, error) {
		n, h, err := e.node(ctx).Create(ctx, name, openFlags(flags), fs.Permissions(mode))
		if err != nil {
			return nil, err
		}
		f, how, err = e.s.file(h, flags, e.s.opt.Stored)
		return n, err
	})
	if file, ok := f.(*file); ok && errno != 0 {
		e.s.drop(file)
	}
	return child, f, how, errno
}

func (e *entry) Mkdir(ctx context.Context, name string, mode uint32, out *gofuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	return e.made(ctx, name, out, func(ctx context.Context) (fs.Node, error) {
		return e.node(ctx).Mkdir(ctx, name, fs.Permissions(mode))
	})
}

func (e *entry) Symlink(ctx context.Context, target, name string, out *gofuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	return e.made(ctx, name, out, func(ctx context.Context) (fs.Node, error) {
		return e.node(ctx).Symlink(ctx, name, e.s.stored(e.links, target))
	})
}

func (e *entry) Link(ctx context.Context, target gofs.InodeEmbedder, name string, out *gofuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	to, ok := target.(*entry)
	if !ok {
		return nil, syscall.EXDEV
	}
	return e.made(ctx, name, out, func(ctx context.Context) (fs.Node, error) {
		return e.node(ctx).Link(ctx, name, to.node(ctx))
	})
}

// Mknod makes an empty file; a tree has no devices, pipes or sockets.
func (e *entry) Mknod(ctx context.Context, name string, mode, _ uint32, out *gofuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	if mode&syscall.S_IFMT != syscall.S_IFREG {
		return nil, syscall.EPERM
	}
	return e.made(ctx, name, out, func(ctx context.Context) (fs.Node, error) {
		n, h, err := e.node(ctx).Create(ctx, name, os.O_WRONLY|os.O_EXCL, fs.Permissions(mode))
		if err != nil {
			return nil, err
		}
		return n, h.Close()
	})
}

func (e *entry) Unlink(ctx context.Context, name string) syscall.Errno {
	return e.remove(ctx, name, false)
}

func (e *entry) Rmdir(ctx context.Context, name string) syscall.Errno {
	return e.remove(ctx, name, true)
}

func (e *entry) remove(ctx context.Context, name string, dir bool) syscall.Errno {
	return e.s.do(ctx, func(ctx context.Context) error { return e.node(ctx).Remove(ctx, name, dir) })
}

func (e *entry) Rename(ctx context.Context, name string, parent gofs.InodeEmbedder, newname string, flags uint32) syscall.Errno {
	dst, ok := parent.(*entry)
	switch {
	case !ok:
		return syscall.EXDEV
	case flags&^renameNoReplace != 0:
		return syscall.EINVAL
	}
	e.s.places.moves.Add(1)
	return e.s.do(ctx, func(ctx context.Context) error {
		if err := fs.CheckName(newname); err != nil {
			return err
		}
		if flags&renameNoReplace != 0 {
			switch _, err := dst.node(ctx).Walk(ctx, newname); {
			case err == nil:
				return fmt.Errorf("%w: %s", fs.ErrExist, newname)
			case fs.Errno(err) != syscall.ENOENT:
				return err
			}
		}
		err := e.node(ctx).Rename(ctx, name, dst.node(ctx), newname)
		if to, ok := fs.Inner(ctx, dst.node(ctx)).(fs.Pathed); ok && err == nil {
			moved(e.GetChild(name), to.At(newname))
		}
		return err
	})
}

// moved has what the kernel keeps of a file that was renamed, and of those
// below it, be of where they are now.
func moved(in *gofs.Inode, to fs.Node) {
	if in == nil {
		return
	}
	e, ok := in.Operations().(*entry)
	dir, pathed := to.(fs.Pathed)
	if !ok || !pathed {
		return
	}
	e.of.Store(&to)
	for name, child := range in.Children() {
		moved(child, dir.At(name))
	}
}
