package ninep

import (
	"fmt"
	"syscall"
	"time"

	"hutch/fs"
	"hutch/fs/ninep/wire"
)

// errBadFd is the error of a fid that is not what the request needs.
var errBadFd = syscall.EBADF

const v9fsMagic = 0x01021997

// getattr serves Tgetattr, with all there is, whatever was asked for.
func (s *session) getattr(o *op) error {
	q, st, err := s.look(o)
	if err != nil {
		return err
	}
	o.out = wire.PutAttr(o.out, q, st)
	return nil
}

// look describes o's file; one that is open and no more where it was, as its
// handle has it.
func (s *session) look(o *op) (wire.Qid, fs.Stat, error) {
	q, st, err := s.qidOf(o.ctx, o.at.node)
	if o.open == nil || o.open.handle == nil || fs.Errno(err) != syscall.ENOENT {
		return q, st, err
	}
	if st, herr := o.open.handle.Stat(o.ctx); herr == nil {
		return s.dialect.qid(st.Mode, st.Qid, st.Vers), st, nil
	}
	return q, st, err
}

// setattr serves Tsetattr. A change of nothing is a sync, as in 9P2000.
func (s *session) setattr(o *op) error {
	if o.mask&^wire.SetCtime == 0 {
		return s.sync(o)
	}
	var c fs.Change
	now := time.Now()
	if o.mask&wire.SetMode != 0 {
		m := fs.Permissions(o.perm)
		c.Mode = &m
	}
	if o.mask&wire.SetUID != 0 {
		c.UID = &o.uid
	}
	if o.mask&wire.SetGID != 0 {
		c.GID = &o.gid
	}
	if o.mask&wire.SetSize != 0 {
		c.Size = &o.size
	}
	if o.mask&wire.SetAtime != 0 {
		c.Atime = pickTime(o.mask&wire.SetAtimeTo != 0, &o.atime, &now)
	}
	if o.mask&wire.SetMtime != 0 {
		c.Mtime = pickTime(o.mask&wire.SetMtimeTo != 0, &o.mtime, &now)
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
	b := wire.Put32(wire.Put32(o.out, v9fsMagic), sp.Block)
	for _, v := range []uint64{sp.Blocks, sp.Free, sp.Avail, sp.Files, sp.FilesFree, 0} {
		b = wire.Put64(b, v)
	}
	o.out = wire.Put32(b, fs.MaxName)
	return nil
}

// xattr serves Txattrwalk and Txattrcreate: there are no such attributes, and
// of all ways to say so Linux' tools take this one most calmly.
func (s *session) xattr(o *op) error {
	return fmt.Errorf("%w: extended attributes", fs.ErrUnsupported)
}
