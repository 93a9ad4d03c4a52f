package fuse

import (
	"context"
	"sync"
	"syscall"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"hutch/fs"
)

// A listing is an open directory: what was in it when it was opened, or
// rewound.
type listing struct {
	of *entry

	mu   sync.Mutex // guards what follows
	list []gofuse.DirEntry
	next int
}

func (e *entry) OpendirHandle(ctx context.Context, _ uint32) (gofs.FileHandle, uint32, syscall.Errno) {
	d := &listing{of: e}
	errno := e.s.do(ctx, d.load)
	return d, 0, errno
}

// load lists the directory; d is not shared yet, or mu is held.
func (d *listing) load(ctx context.Context) error {
	entries, err := d.of.node(ctx).List(ctx)
	if err != nil {
		return err
	}
	up := &d.of.Inode
	if _, p := up.Parent(); p != nil {
		up = p
	}
	d.list = append(d.list[:0],
		gofuse.DirEntry{Name: ".", Mode: syscall.S_IFDIR, Ino: d.of.StableAttr().Ino},
		gofuse.DirEntry{Name: "..", Mode: syscall.S_IFDIR, Ino: up.StableAttr().Ino})
	for _, e := range entries {
		d.list = append(d.list, dirEntry(e))
	}
	for i := range d.list {
		d.list[i].Off = uint64(i + 1)
	}
	d.next = 0
	return nil
}

func dirEntry(e fs.Entry) gofuse.DirEntry {
	return gofuse.DirEntry{Name: e.Name, Mode: typeBits(e.Mode), Ino: e.Qid}
}

func (d *listing) Readdirent(context.Context) (*gofuse.DirEntry, syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.next == len(d.list) {
		return nil, 0
	}
	d.next++
	return &d.list[d.next-1], 0
}

func (d *listing) Seekdir(ctx context.Context, off uint64) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if off == 0 {
		return d.of.s.do(ctx, d.load)
	}
	if off > uint64(len(d.list)) {
		return syscall.EINVAL
	}
	d.next = int(off)
	return 0
}

// Lookup adds to a listing what its files are like, where that holds for a
// while. Attributes of made-up files hold for no time, and the kernel would
// ask for them again.
func (d *listing) Lookup(ctx context.Context, name string, out *gofuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	if !d.of.kept.Load() {
		return nil, syscall.ENOENT
	}
	return d.of.Lookup(ctx, name, out)
}

func (d *listing) Fsyncdir(context.Context, uint32) syscall.Errno { return 0 }

var (
	_ gofs.FileReaddirenter = (*listing)(nil)
	_ gofs.FileSeekdirer    = (*listing)(nil)
	_ gofs.FileLookuper     = (*listing)(nil)
	_ gofs.FileFsyncdirer   = (*listing)(nil)
)
