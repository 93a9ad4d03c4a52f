package fuse

import (
	"os"
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"hutch/fs"
)

// special are the mode bits above the permissions, here and in the kernel.
var special = []struct {
	mode os.FileMode
	bits uint32
}{
	{os.ModeSetuid, syscall.S_ISUID},
	{os.ModeSetgid, syscall.S_ISGID},
	{os.ModeSticky, syscall.S_ISVTX},
}

// typeBits returns the file type as the kernel writes it.
func typeBits(m os.FileMode) uint32 {
	switch m.Type() {
	case os.ModeDir:
		return syscall.S_IFDIR
	case os.ModeSymlink:
		return syscall.S_IFLNK
	case os.ModeNamedPipe:
		return syscall.S_IFIFO
	case os.ModeSocket:
		return syscall.S_IFSOCK
	case os.ModeDevice:
		return syscall.S_IFBLK
	case os.ModeDevice | os.ModeCharDevice:
		return syscall.S_IFCHR
	}
	return syscall.S_IFREG
}

func modeBits(m os.FileMode) uint32 {
	bits := typeBits(m) | uint32(m.Perm())
	for _, s := range special {
		if m&s.mode != 0 {
			bits |= s.bits
		}
	}
	return bits
}

// permissions returns the permission and special bits of a kernel's mode.
func permissions(bits uint32) os.FileMode {
	m := os.FileMode(bits) & os.ModePerm
	for _, s := range special {
		if bits&s.bits != 0 {
			m |= s.mode
		}
	}
	return m
}

// setAttr fills in what stat(2) shows.
func setAttr(a *gofuse.Attr, st fs.Stat) {
	a.Ino = st.Qid
	a.Mode = modeBits(st.Mode)
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
		m := permissions(bits)
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
