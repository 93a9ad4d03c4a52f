package ninep

import (
	"fmt"
	"math"
	"os"
	"syscall"
	"time"

	"hutch/fs"
	"hutch/fs/ninep/wire"
)

// Bits of a mode of 9P2000; the high byte is also the qid's type.
const (
	dmDir       = 0x80000000
	dmAppend    = 0x40000000
	dmExcl      = 0x20000000
	dmMount     = 0x10000000
	dmAuth      = 0x08000000
	dmTmp       = 0x04000000
	dmSymlink   = 0x02000000 // plan9port's, as those below
	dmDevice    = 0x00800000
	dmNamedPipe = 0x00200000
	dmSocket    = 0x00100000
)

var dmPairs = [...]struct {
	dm   uint32
	mode os.FileMode
}{
	{dmDir, os.ModeDir}, {dmAppend, os.ModeAppend}, {dmExcl, os.ModeExclusive},
	{dmTmp, os.ModeTemporary}, {dmSymlink, os.ModeSymlink}, {dmDevice, os.ModeDevice},
	{dmNamedPipe, os.ModeNamedPipe}, {dmSocket, os.ModeSocket},
}

// dmBits returns a file's type as 9P2000 has it.
func dmBits(mode os.FileMode) uint32 {
	var m uint32
	for _, p := range dmPairs {
		if mode&p.mode != 0 {
			m |= p.dm
		}
	}
	return m
}

// A dirStat is a stat of 9P2000.
type dirStat struct {
	typ                  uint16
	dev                  uint32
	qid                  wire.Qid
	mode, atime, mtime   uint32
	length               uint64
	name, uid, gid, muid string
}

// untouched is the stat of a Twstat that changes nothing.
var untouched = dirStat{
	typ: math.MaxUint16, dev: math.MaxUint32,
	qid:  wire.Qid{Type: math.MaxUint8, Vers: math.MaxUint32, Path: math.MaxUint64},
	mode: math.MaxUint32, atime: math.MaxUint32, mtime: math.MaxUint32,
	length: math.MaxUint64,
}

// dirStat makes a stat.
func (s *session) dirStat(st fs.Stat) dirStat {
	d := dirStat{
		qid: classic.qid(st.Mode, st.Qid, st.Vers), mode: dmBits(st.Mode) | uint32(st.Mode.Perm()),
		atime: seconds(st.Atime), mtime: seconds(st.Mtime), length: st.Size, name: st.Name,
		uid: s.srv.owners.user(st.UID), gid: s.srv.owners.group(st.GID),
	}
	d.muid = d.uid
	if st.Mode.IsDir() {
		d.length = 0
	}
	return d
}

func seconds(t time.Time) uint32 {
	return uint32(max(0, min(t.Unix(), math.MaxUint32)))
}

// putStat appends the stat of a file, its length before it.
func (s *session) putStat(b []byte, st fs.Stat) []byte {
	d := s.dirStat(st)
	start := len(b)
	b = wire.Put32(wire.Put16(wire.Put16(b, 0), d.typ), d.dev)
	b = wire.Put32(wire.Put32(wire.Put32(wire.PutQid(b, d.qid), d.mode), d.atime), d.mtime)
	b = wire.PutString(wire.PutString(wire.Put64(b, d.length), d.name), d.uid)
	b = wire.PutString(wire.PutString(b, d.gid), d.muid)
	le.PutUint16(b[start:], uint16(len(b)-start-2))
	return b
}

// getStat takes a stat apart.
func getStat(b []byte) (dirStat, error) {
	c := wire.Cutter{B: b}
	if int(c.U16()) != len(c.B) {
		return dirStat{}, wire.ErrMalformed
	}
	var d dirStat
	d.typ, d.dev = c.U16(), c.U32()
	d.qid = c.Qid()
	d.mode, d.atime, d.mtime, d.length = c.U32(), c.U32(), c.U32(), c.U64()
	d.name, d.uid, d.gid, d.muid = c.Str(), c.Str(), c.Str(), c.Str()
	return d, c.End()
}

// named returns the stat of the file at, under the name it was walked by.
func (s *session) named(o *op) (fs.Stat, error) {
	st, err := o.at.node.Stat(o.ctx)
	st.Name = o.at.name
	if o.at.up == nil {
		st.Name = "/"
	}
	return st, err
}

// stat serves Tstat.
func (s *session) stat(o *op) error {
	st, err := s.named(o)
	if err != nil {
		return err
	}
	o.out = s.putStat(wire.Put16(o.out, 0), st)
	le.PutUint16(o.out[wire.HeadLen:], uint16(len(o.out)-wire.HeadLen-2))
	return nil
}

// wstat serves Twstat: all of it or nothing. Changing nothing is a sync.
func (s *session) wstat(o *op) error {
	want, err := getStat(o.data)
	if err != nil {
		return fmt.Errorf("%w: stat: %w", fs.ErrInvalid, err)
	}
	over := want.isLinuxRename()
	want.muid = "" // the server's to set
	if want == untouched {
		return s.sync(o)
	}
	st, err := s.named(o)
	if err != nil {
		return err
	}
	is := s.dirStat(st)
	if err := want.sameAs(is); err != nil {
		return err
	}
	rename := want.name != "" && want.name != is.name
	if rename {
		if err := s.mayRename(o, want.name, over); err != nil {
			return err
		}
	}
	c, err := want.change(is)
	if err != nil {
		return err
	}
	if c != (fs.Change{}) || !rename {
		if err := o.at.node.Set(o.ctx, c); err != nil {
			return err
		}
	}
	if !rename {
		return nil
	}
	return s.moveTo(o, o.at.up, o.at.name, o.at.up, want.name)
}

// isLinuxRename says whether d is what Linux' client sends for rename(2): it
// names its user beside the new name, and nothing else. It knows no other way to
// put a file in the place of another, which git and editors need.
func (d dirStat) isLinuxRename() bool {
	named := d.muid != "" && d.name != ""
	d.muid, d.name = "", ""
	return named && d == untouched
}

// sameAs refuses to change what a Twstat cannot change.
func (d dirStat) sameAs(is dirStat) error {
	kind := uint32(dmDir | dmMount | dmAuth | dmSymlink | dmDevice | dmNamedPipe | dmSocket)
	u := untouched
	var what string
	switch {
	case d.typ != u.typ && d.typ != is.typ:
		what = "type"
	case d.dev != u.dev && d.dev != is.dev:
		what = "dev"
	case d.qid.Path != u.qid.Path && d.qid.Path != is.qid.Path:
		what = "qid"
	case d.mode != u.mode && (d.mode^is.mode)&kind != 0:
		what = "kind of file"
	case d.uid != "" && d.uid != is.uid:
		what = "owner"
	case d.gid != "" && d.gid != is.gid:
		what = "group"
	default:
		return nil
	}
	return fmt.Errorf("%w: wstat of %s", fs.ErrNotPermitted, what)
}

// change returns what a Twstat changes but the name.
func (d dirStat) change(is dirStat) (fs.Change, error) {
	var c fs.Change
	if d.length != untouched.length && d.length != is.length {
		if is.mode&dmDir != 0 {
			return c, fmt.Errorf("%w: wstat of length", fs.ErrIsDir)
		}
	}
	// A length that the file has already is still asked for: files that are
	// made up have none, and truncating them means something to their nodes.
	if d.length != untouched.length && is.mode&dmDir == 0 {
		c.Size = &d.length
	}
	if d.mode != untouched.mode && d.mode != is.mode {
		m := os.FileMode(d.mode & 0o777)
		c.Mode = &m
	}
	if d.atime != untouched.atime {
		t := time.Unix(int64(d.atime), 0)
		c.Atime = &t
	}
	if d.mtime != untouched.mtime {
		t := time.Unix(int64(d.mtime), 0)
		c.Mtime = &t
	}
	return c, nil
}

// mayRename refuses to rename the root, and over a file that is there, as
// stat(5) demands, if not told otherwise. A scratch file takes no other's place.
func (s *session) mayRename(o *op, name string, over bool) error {
	if o.at.up == nil {
		return fmt.Errorf("%w: rename of the root", fs.ErrNotPermitted)
	}
	if err := fs.CheckName(name); err != nil || over || fs.IsScratch(o.at.node) {
		return err
	}
	_, err := o.at.up.node.Walk(o.ctx, name)
	switch {
	case err == nil:
		return fmt.Errorf("%w: %s", fs.ErrExist, name)
	case fs.Errno(err) != syscall.ENOENT:
		return err
	}
	return nil
}
