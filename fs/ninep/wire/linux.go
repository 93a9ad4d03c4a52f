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
	Directory = 0o200000
)

// RemoveDir is the flag of a Tunlinkat of a directory.
const RemoveDir = 0x200

var flagPairs = [...]struct {
	linux uint32
	here  int
}{{0o200, os.O_EXCL}, {0o1000, os.O_TRUNC}, {0o2000, os.O_APPEND}, {0o4000, syscall.O_NONBLOCK}}

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

// TypeByte returns the type of a file as an entry of a directory has it.
func TypeByte(mode os.FileMode) byte { return byte(fs.UnixMode(mode) >> 12) }

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
	b = Put32(Put32(Put32(b, fs.UnixMode(st.Mode)), st.UID), st.GID)
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
	st := fs.Stat{Qid: q.Path, Vers: q.Vers, Mode: fs.FileMode(c.U32()), UID: c.U32(), GID: c.U32()}
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
		mask, mode = mask|SetMode, fs.UnixMode(*c.Mode)&^fs.UnixType
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
