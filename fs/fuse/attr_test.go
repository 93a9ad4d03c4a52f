package fuse

import (
	"os"
	"syscall"
	"testing"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"hutch/fs"
)

func TestSetAttr(t *testing.T) {
	var a gofuse.Attr
	setAttr(&a, fs.Stat{Mode: os.ModeDir | 0o700, Qid: 7, UID: 8, GID: 9, Mtime: time.Unix(5, 6)})
	want := gofuse.Attr{Ino: 7, Mode: syscall.S_IFDIR | 0o700, Nlink: 1, Owner: gofuse.Owner{Uid: 8, Gid: 9}, Mtime: 5, Mtimensec: 6}
	if a != want {
		t.Errorf("%+v, want %+v", a, want)
	}
}

func TestChange(t *testing.T) {
	in := &gofuse.SetAttrIn{}
	if c := change(in); c != (fs.Change{}) {
		t.Errorf("nothing: %+v", c)
	}
	in.Valid = gofuse.FATTR_SIZE | gofuse.FATTR_MODE | gofuse.FATTR_GID | gofuse.FATTR_MTIME
	in.Mode, in.Gid, in.Mtime = syscall.S_IFREG|0o4755, 3, 9
	c := change(in)
	if c.Size == nil || *c.Size != 0 || c.Mode == nil || *c.Mode != os.ModeSetuid|0o755 || c.UID != nil ||
		c.GID == nil || *c.GID != 3 || c.Atime != nil || c.Mtime == nil || !c.Mtime.Equal(time.Unix(9, 0)) {
		t.Errorf("%+v", c)
	}
}

func TestOpenFlags(t *testing.T) {
	const all = syscall.O_RDWR | syscall.O_TRUNC | syscall.O_APPEND | syscall.O_NONBLOCK | syscall.O_EXCL
	if got := openFlags(all | syscall.O_CREAT | syscall.O_CLOEXEC | syscall.O_SYNC | 1<<20); got != all {
		t.Errorf("%#x, want %#x", got, all)
	}
}
