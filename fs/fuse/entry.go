package fuse

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"time"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"hutch/fs"
)

// stays is how long the kernel keeps a name that leads to the same directory
// always, before it asks once more.
const stays = time.Hour

// An entry is a file or directory of the tree that the kernel knows.
type entry struct {
	gofs.Inode
	s  *Server
	of atomic.Pointer[fs.Node] // the node that the last walk found

	links *foreign    // what links mean, if they are another machine's
	keeps atomic.Bool // it is a stored file
	kept  atomic.Bool // clients may believe it for a while
}

func (s *Server) entry(n fs.Node) *entry {
	e := &entry{s: s}
	e.of.Store(&n)
	return e
}

// node returns the node as who makes the request has it: the kernel has one
// entry for all.
func (e *entry) node(ctx context.Context) fs.Node {
	who := fs.Principal{UID: fs.NoUID}
	if client, ok := gofuse.FromContext(ctx); ok {
		who.UID = client.Uid
	}
	return fs.For(*e.of.Load(), who)
}

func (e *entry) Lookup(ctx context.Context, name string, out *gofuse.EntryOut) (child *gofs.Inode, errno syscall.Errno) {
	errno = e.s.do(ctx, func(ctx context.Context) error {
		if err := fs.CheckName(name); err != nil {
			return err
		}
		n, err := e.node(ctx).Walk(ctx, name)
		if err != nil {
			return err
		}
		child, err = e.child(ctx, name, n, out)
		return err
	})
	return child, errno
}

// child returns the kernel's inode for the entry called name, which is n.
func (e *entry) child(ctx context.Context, name string, n fs.Node, out *gofuse.EntryOut) (*gofs.Inode, error) {
	st, err := n.Stat(ctx)
	if err != nil {
		return nil, err
	}
	setAttr(&out.Attr, st)
	if st.Keep > 0 {
		out.SetEntryTimeout(st.Keep)
		out.SetAttrTimeout(st.Keep)
	}
	if st.Stays {
		out.SetEntryTimeout(stays)
	}
	child := e.s.entry(n)
	child.links = foreignOf(n, child.EmbeddedInode(), e.links)
	child.keeps.Store(st.Vers != 0)
	child.kept.Store(st.Keep > 0)
	id := gofs.StableAttr{Ino: st.Qid, Mode: typeBits(st.Mode)}
	if e.links != nil && (placed(id.Mode) || st.Keep > 0) { // what is kept is known by its path
		id.Gen = e.placeOf(name, id)
	}
	if st.Mode.IsDir() {
		if h, gen, ok := e.s.host(n); ok {
			id.Gen = gen
			return e.reuse(ctx, name, h, id), nil
		}
	}
	if alone(st) {
		id.Gen = e.s.birth.Add(1)
	}
	return e.reuse(ctx, name, child, id), nil
}

// placeOf returns the generation of a directory or link of another machine.
func (e *entry) placeOf(name string, id gofs.StableAttr) uint64 {
	if old := e.GetChild(name); old != nil && old.StableAttr().Ino == id.Ino && old.StableAttr().Mode == id.Mode {
		return old.StableAttr().Gen
	}
	return e.s.places.of(e.EmbeddedInode(), name, id.Ino)
}

// alone says whether each open file of st needs an inode of its own in the
// kernel. A write holds its inode's lock while it lasts, and who waits for
// that lock, to write or only to open with O_TRUNC, cannot be killed. With
// an inode each, a client of a ctl file waits for nobody else's message.
func alone(st fs.Stat) bool {
	return st.Vers == 0 && st.Keep == 0 && st.Mode.IsRegular() && st.Mode&0o222 != 0
}

// reuse returns the inode that the entry has already, if it is the same
// file, or a new one that ops serves.
func (e *entry) reuse(ctx context.Context, name string, ops gofs.InodeEmbedder, id gofs.StableAttr) *gofs.Inode {
	if old := e.GetChild(name); old != nil && old.StableAttr() == id {
		was, old1 := old.Operations().(*entry)
		is, new1 := ops.(*entry)
		if old1 && new1 {
			was.of.Store(is.of.Load())
			was.kept.Store(is.kept.Load())
		}
		if old1 == new1 {
			return old
		}
	}
	return e.NewInode(ctx, ops, id)
}

// Getattr describes the file; one that is open and no more where it was, as
// its handle has it.
func (e *entry) Getattr(ctx context.Context, f gofs.FileHandle, out *gofuse.AttrOut) syscall.Errno {
	return e.s.do(ctx, func(ctx context.Context) error {
		err := e.stat(ctx, out)
		if open, ok := f.(*file); ok && errors.Is(err, fs.ErrNotExist) {
			return open.stat(ctx, out, err)
		}
		return err
	})
}

func (e *entry) stat(ctx context.Context, out *gofuse.AttrOut) error {
	st, err := e.node(ctx).Stat(ctx)
	if err != nil {
		return err
	}
	setAttr(&out.Attr, st)
	if st.Keep > 0 {
		out.SetTimeout(st.Keep)
	}
	return nil
}

func (e *entry) Setattr(ctx context.Context, _ gofs.FileHandle, in *gofuse.SetAttrIn, out *gofuse.AttrOut) syscall.Errno {
	return e.s.do(ctx, func(ctx context.Context) error {
		if err := e.node(ctx).Set(ctx, change(in)); err != nil {
			return err
		}
		return e.stat(ctx, out)
	})
}

func (e *entry) Readlink(ctx context.Context) (target []byte, errno syscall.Errno) {
	errno = e.s.do(ctx, func(ctx context.Context) error {
		to, err := e.node(ctx).Readlink(ctx)
		if err == nil {
			_, dir := e.Parent()
			target = []byte(e.s.link(dir, e.links, to))
		}
		return err
	})
	return target, errno
}

func (e *entry) Open(ctx context.Context, flags uint32) (f gofs.FileHandle, how uint32, errno syscall.Errno) {
	errno = e.s.do(ctx, func(ctx context.Context) error {
		h, err := e.node(ctx).Open(ctx, openFlags(flags))
		if err != nil {
			return err
		}
		f, how, err = e.s.file(h, flags, e.stored())
		return err
	})
	return f, how, errno
}

// stored says whether the kernel is to keep the file's pages.
func (e *entry) stored() bool { return e.s.opt.Stored && e.keeps.Load() }

// Statfs tells the room there is, and the length of names.
func (e *entry) Statfs(ctx context.Context, out *gofuse.StatfsOut) syscall.Errno {
	return e.s.do(ctx, func(ctx context.Context) error {
		sp, err := fs.SpaceOf(ctx, e.node(ctx))
		if err != nil {
			return err
		}
		out.Bsize, out.Frsize, out.NameLen = sp.Block, sp.Block, fs.MaxName
		out.Blocks, out.Bfree, out.Bavail, out.Files, out.Ffree = sp.Blocks, sp.Free, sp.Avail, sp.Files, sp.FilesFree
		return nil
	})
}

// A kernelNode answers what the kernel asks of a file, made-up or of a host folder.
type kernelNode interface {
	gofs.NodeLookuper
	gofs.NodeGetattrer
	gofs.NodeSetattrer
	gofs.NodeStatxer
	gofs.NodeStatfser
	gofs.NodeReadlinker
	gofs.NodeOpener
	gofs.NodeOpendirHandler
	gofs.NodeCreater
	gofs.NodeMkdirer
	gofs.NodeMknoder
	gofs.NodeSymlinker
	gofs.NodeLinker
	gofs.NodeUnlinker
	gofs.NodeRmdirer
	gofs.NodeRenamer
	gofs.NodeGetxattrer
	gofs.NodeSetxattrer
	gofs.NodeRemovexattrer
	gofs.NodeListxattrer
}

var _ kernelNode = (*entry)(nil)
