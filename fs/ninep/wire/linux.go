package wire

import (
	"math"
	"os"
	"syscall"

	"hutch/fs"
)

// Flags of Tlopen and Tlcreate: Linux' numbers, whatever the system.
const (
	Rdonly    = 0
	Wronly    = 1
	Excl      = 0o200
	Trunc     = 0o1000
	Append    = 0o2000
	Nonblock  = 0o4000
	Directory = 0o200000
)

// RemoveDir is the flag of a Tunlinkat of a directory.
const RemoveDir = 0x200

var flagPairs = [...]struct {
	linux uint32
	here  int
}{{Excl, os.O_EXCL}, {Trunc, os.O_TRUNC}, {Append, os.O_APPEND}, {Nonblock, syscall.O_NONBLOCK}}

// Flags returns what fs.Open takes for the flags of 9P2000.L.
func Flags(linux uint32) int {
	flags := int(linux & 3)
	for _, p := range flagPairs {
		if linux&p.linux != 0 {
			flags |= p.here
		}
	}
	return flags
}

// LinuxFlags returns the flags of 9P2000.L for what fs.Open takes.
func LinuxFlags(flags int) uint32 {
	linux := uint32(flags & (os.O_WRONLY | os.O_RDWR))
	for _, p := range flagPairs {
		if flags&p.here != 0 {
			linux |= p.linux
		}
	}
	return linux
}

// TypeMask has the type in a mode of Linux.
const TypeMask = 0o170000

var types = [...]struct {
	linux uint32
	mode  os.FileMode
}{
	{0o040000, os.ModeDir}, {0o100000, 0}, {0o120000, os.ModeSymlink}, {0o010000, os.ModeNamedPipe},
	{0o140000, os.ModeSocket}, {0o020000, os.ModeDevice | os.ModeCharDevice}, {0o060000, os.ModeDevice},
}

var specialBits = [...]struct {
	linux uint32
	mode  os.FileMode
}{{0o4000, os.ModeSetuid}, {0o2000, os.ModeSetgid}, {0o1000, os.ModeSticky}}

// LinuxMode returns Linux' mode for a file's. What has no type there is a file.
func LinuxMode(mode os.FileMode) uint32 {
	m := uint32(0o100000)
	for _, t := range types {
		if mode.Type()&^os.ModeIrregular == t.mode {
			m = t.linux
		}
	}
	return m | LinuxPerm(mode)
}

// LinuxPerm returns the permissions of a file's mode as Linux has them.
func LinuxPerm(mode os.FileMode) uint32 {
	m := uint32(mode.Perm())
	for _, b := range specialBits {
		if mode&b.mode != 0 {
			m |= b.linux
		}
	}
	return m
}

// Mode returns a file's mode for Linux'. The types that Linux has not are irregular.
func Mode(linux uint32) os.FileMode {
	mode := Perm(linux) | os.ModeIrregular
	for _, t := range types {
		if linux&TypeMask == t.linux {
			mode = Perm(linux) | t.mode
		}
	}
	return mode
}

// Perm returns the permissions in a mode of Linux.
func Perm(linux uint32) os.FileMode {
	mode := os.FileMode(linux & 0o777)
	for _, b := range specialBits {
		if linux&b.linux != 0 {
			mode |= b.mode
		}
	}
	return mode
}

// TypeByte returns the type of a file as an entry of a directory has it.
func TypeByte(mode os.FileMode) byte { return byte(LinuxMode(mode) >> 12) }

const (
	// AllAttrs is the mask of all that an Rgetattr tells.
	AllAttrs  = 0x7ff
	blockSize = 4096
)

// AttrLen is the length of an Rgetattr without its head.
const AttrLen = 8 + QidLen + 4 + 4 + 4 + 15*8

// PutAttr appends what an Rgetattr says of a file.
func PutAttr(b []byte, q Qid, st fs.Stat) []byte {
	b = PutQid(Put64(b, AllAttrs), q)
	b = Put32(Put32(Put32(b, LinuxMode(st.Mode)), st.UID), st.GID)
	b = Put64(Put64(b, uint64(max(st.Nlink, 1))), 0)
	b = Put64(Put64(Put64(b, st.Size), blockSize), (st.Size+511)/512)
	b = PutTime(PutTime(PutTime(b, st.Atime), st.Mtime), st.Ctime)
	b = Put64(Put64(b, 0), 0)    // btime
	return Put64(Put64(b, 0), 0) // gen, data_version
}

// Attr cuts off what an Rgetattr says of a file. Its numbers are kept to what
// others can take.
func (c *Cutter) Attr() (Qid, fs.Stat) {
	c.U64() // what is valid: we take what there is
	q := c.Qid()
	st := fs.Stat{Qid: q.Path, Vers: q.Vers, Mode: Mode(c.U32()), UID: c.U32(), GID: c.U32()}
	st.Nlink = uint32(min(c.U64(), math.MaxInt32))
	c.U64() // rdev
	st.Size = min(c.U64(), math.MaxInt64)
	c.Take(8 + 8) // block size, blocks
	st.Atime, st.Mtime, st.Ctime = c.Time(), c.Time(), c.Time()
	c.Take(16 + 16) // btime, generation, version
	return q, st
}

// Bits of the mask of Tsetattr.
const (
	SetMode = 1 << iota
	SetUID
	SetGID
	SetSize
	SetAtime
	SetMtime
	SetCtime
	SetAtimeTo
	SetMtimeTo
)

// PutChange appends the mask and the fields of a Tsetattr.
func PutChange(b []byte, c fs.Change) []byte {
	var mask, mode uint32
	if c.Mode != nil {
		mask, mode = mask|SetMode, LinuxPerm(*c.Mode)
	}
	if c.UID != nil {
		mask |= SetUID
	}
	if c.GID != nil {
		mask |= SetGID
	}
	if c.Size != nil {
		mask |= SetSize
	}
	if c.Atime != nil {
		mask |= SetAtime | SetAtimeTo
	}
	if c.Mtime != nil {
		mask |= SetMtime | SetMtimeTo
	}
	b = Put32(Put32(Put32(Put32(b, mask), mode), deref(c.UID)), deref(c.GID))
	return PutTime(PutTime(Put64(b, deref(c.Size)), deref(c.Atime)), deref(c.Mtime))
}

// deref returns what p points to, or nothing.
func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
