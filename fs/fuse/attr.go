package fuse

import (
	"os"
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"hutch/fs"
)

// typeBits returns the file type as the kernel writes it.
func typeBits(m os.FileMode) uint32 { return fs.UnixMode(m) & fs.UnixType }

// setAttr fills in what stat(2) shows.
func setAttr(a *gofuse.Attr, st fs.Stat) {
	a.Ino = st.Qid
	a.Mode = fs.UnixMode(st.Mode)
	a.Size = st.Size
	// One link says nothing about a directory; two would tell find that
	// it has no subdirectories.
	a.Nlink = max(st.Nlink, 1)
	a.Owner = gofuse.Owner{Uid: st.UID, Gid: st.GID}
	a.Atime, a.Atimensec = stamp(st.Atime)
	a.Mtime, a.Mtimensec = stamp(st.Mtime)
	a.Ctime, a.Ctimensec = stamp(st.Ctime)
}

func stamp(t time.Time) (uint64, uint32) {
	if t.IsZero() {
		return 0, 0
	}
	return uint64(t.Unix()), uint32(t.Nanosecond())
}

// change returns what a client asks to change.
func change(in *gofuse.SetAttrIn) fs.Change {
	var c fs.Change
	if size, ok := in.GetSize(); ok {
		c.Size = &size
	}
	if bits, ok := in.GetMode(); ok {
		m := fs.Permissions(bits)
		c.Mode = &m
	}
	if uid, ok := in.GetUID(); ok {
		c.UID = &uid
	}
	if gid, ok := in.GetGID(); ok {
		c.GID = &gid
	}
	if t, ok := in.GetATime(); ok {
		c.Atime = &t
	}
	if t, ok := in.GetMTime(); ok {
		c.Mtime = &t
	}
	return c
}

// openFlags keeps of a client's flags what Node.Open and Create understand.
func openFlags(flags uint32) int {
	const known = syscall.O_ACCMODE | os.O_TRUNC | os.O_APPEND | os.O_EXCL | syscall.O_NONBLOCK
	return int(flags) & known
}
