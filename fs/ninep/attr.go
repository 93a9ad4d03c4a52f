package ninep

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"hutch/fs"
)

// errBadFd is the error of a fid that is not what the request needs.
var errBadFd = syscall.EBADF

// Linux' file types, as in a mode.
const (
	linuxFifo = 0o010000
	linuxChar = 0o020000
	linuxDir  = 0o040000
	linuxBlk  = 0o060000
	linuxReg  = 0o100000
	linuxLink = 0o120000
	linuxSock = 0o140000
	linuxType = 0o170000
)

// typeBits returns the type of a file as Linux' modes have it.
func typeBits(mode os.FileMode) uint32 {
	switch mode.Type() &^ os.ModeIrregular {
	case os.ModeDir:
		return linuxDir
	case os.ModeSymlink:
		return linuxLink
	case os.ModeNamedPipe:
		return linuxFifo
	case os.ModeSocket:
		return linuxSock
	case os.ModeDevice | os.ModeCharDevice:
		return linuxChar
	case os.ModeDevice:
		return linuxBlk
	}
	return linuxReg
}

// special pairs the bits of a mode beside rwx.
var special = [...]struct {
	linux uint32
	mode  os.FileMode
}{
	{0o4000, os.ModeSetuid}, {0o2000, os.ModeSetgid}, {0o1000, os.ModeSticky},
}

// linuxMode returns Linux' mode for a file's.
func linuxMode(mode os.FileMode) uint32 {
	m := typeBits(mode) | uint32(mode.Perm())
	for _, b := range special {
		if mode&b.mode != 0 {
			m |= b.linux
		}
	}
	return m
}

// unixMode returns the permissions in a mode of Linux.
func unixMode(m uint32) os.FileMode {
	mode := os.FileMode(m & 0o777)
	for _, b := range special {
		if m&b.linux != 0 {
			mode |= b.mode
		}
	}
	return mode
}

const (
	attrBasic   = 0x7ff // the mask of all that getattr tells
	blockSize   = 4096
	v9fsMagic   = 0x01021997
	unlinkAsDir = 0x200
)

// getattr serves Tgetattr, with all there is, whatever was asked for.
func (s *session) getattr(o *op) error {
	q, st, err := s.look(o)
	if err != nil {
		return err
	}
	o.out = putAttr(o.out, q, st)
	return nil
}

// attrLen is the length of an Rgetattr without its head.
const attrLen = 8 + qidLen + 4 + 4 + 4 + 15*8

func putAttr(b []byte, q qid, st fs.Stat) []byte {
	b = putQid(put64(b, attrBasic), q)
	b = put32(put32(put32(b, linuxMode(st.Mode)), st.UID), st.GID)
	b = put64(put64(b, uint64(max(st.Nlink, 1))), 0)
	b = put64(put64(put64(b, st.Size), blockSize), (st.Size+511)/512)
	b = putTime(putTime(putTime(b, st.Atime), st.Mtime), st.Ctime)
	b = put64(put64(b, 0), 0)    // btime
	return put64(put64(b, 0), 0) // gen, data_version
}

// look describes o's file; one that is open and no more where it was, as its
// handle has it.
func (s *session) look(o *op) (qid, fs.Stat, error) {
	q, st, err := s.qidOf(o.ctx, o.at.node)
	if o.open == nil || fs.Errno(err) != syscall.ENOENT {
		return q, st, err
	}
	h, ok := o.open.handle.(fs.Statter)
	if !ok {
		return q, st, err
	}
	if st, err = h.Stat(o.ctx); err != nil {
		return q, st, err
	}
	return s.dialect.qid(st.Mode, st.Qid, st.Vers), st, nil
}

// Bits of the mask of Tsetattr.
const (
	setMode = 1 << iota
	setUID
	setGID
	setSize
	setAtime
	setMtime
	setCtime
	setAtimeTo
	setMtimeTo
)

// setattr serves Tsetattr. A change of nothing is a sync, as in 9P2000.
func (s *session) setattr(o *op) error {
	if o.mask&^setCtime == 0 {
		return s.sync(o)
	}
	var c fs.Change
	now := time.Now()
	if o.mask&setMode != 0 {
		m := unixMode(o.perm)
		c.Mode = &m
	}
	if o.mask&setUID != 0 {
		c.UID = &o.uid
	}
	if o.mask&setGID != 0 {
		c.GID = &o.gid
	}
	if o.mask&setSize != 0 {
		c.Size = &o.size
	}
	if o.mask&setAtime != 0 {
		c.Atime = pickTime(o.mask&setAtimeTo != 0, &o.atime, &now)
	}
	if o.mask&setMtime != 0 {
		c.Mtime = pickTime(o.mask&setMtimeTo != 0, &o.mtime, &now)
	}
	return o.at.node.Set(o.ctx, c)
}

func pickTime(given bool, t, now *time.Time) *time.Time {
	if given {
		return t
	}
	return now
}

// statfs serves Tstatfs. Made-up files are on a file system of no size, so
// that df leaves it out.
func (s *session) statfs(o *op) error {
	sp, err := fs.SpaceOf(o.ctx, o.at.node)
	if err != nil {
		return err
	}
	b := put32(put32(o.out, v9fsMagic), sp.Block)
	for _, v := range []uint64{sp.Blocks, sp.Free, sp.Avail, sp.Files, sp.FilesFree, 0} {
		b = put64(b, v)
	}
	o.out = put32(b, maxName)
	return nil
}

// xattr serves Txattrwalk and Txattrcreate: there are no such attributes, and
// of all ways to say so Linux' tools take this one most calmly.
func (s *session) xattr(o *op) error {
	return fmt.Errorf("%w: extended attributes", fs.ErrUnsupported)
}

// isNotExist says whether err is of a file that is not there.
func isNotExist(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrNotExist)
}
