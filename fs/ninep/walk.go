package ninep

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"hutch/fs"
	"hutch/fs/ninep/wire"
)

// walk serves Twalk. When a name but the first leads nowhere, the reply has
// the qids up to it, and newfid stays unused.
func (s *session) walk(o *op) error {
	var at *place
	room := o.at.keepAfter(o.names)
	err := s.srv.keep(room)
	if err == nil {
		defer s.srv.giveUp(room)
		at, err = s.walkNames(o)
	}
	partial := err == nil && len(o.names) > 0 && len(o.out) < wire.HeadLen+2+len(o.names)*wire.QidLen
	if err == nil && o.f2 == nil && !partial {
		err = s.move(o, at)
	}
	if o.f2 != nil {
		if err != nil || partial {
			at = nil
		}
		s.settle(o.f2, at)
	}
	return err
}

// walkNames walks from o.at and puts the qids into the reply.
func (s *session) walkNames(o *op) (*place, error) {
	if len(o.names) > wire.MaxWalk {
		return nil, tooDeep()
	}
	at := o.at
	o.out = wire.Put16(o.out, 0)
	for i, name := range o.names {
		next, q, err := s.step(o.ctx, at, name)
		if err != nil && i == 0 {
			return nil, s.missing(err)
		}
		if err != nil {
			s.err.last.Set(err)
			return nil, nil
		}
		at = next
		o.out = wire.PutQid(o.out, q)
		le.PutUint16(o.out[wire.HeadLen:], uint16(i+1))
	}
	return at, nil
}

func tooDeep() error {
	return fmt.Errorf("%w: walk of more than %d names", fs.ErrInvalid, wire.MaxWalk)
}

// missing returns the error of a first name that leads nowhere. It is the bare
// text, to which the name would add nothing: Linux' client of 9P2000 compares
// whole texts, and makes no file of a name unless it knows it to be free.
func (s *session) missing(err error) error {
	if s.dialect == classic && fs.Errno(err) == syscall.ENOENT {
		return fs.ErrNotExist
	}
	return err
}

// move gives the fid of o, which must not be open, a new place.
func (s *session) move(o *op, at *place) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.f.open != nil || o.f.busy {
		return fidInUse(o.fid)
	}
	s.put(o.f, at)
	return nil
}

// step walks one name.
func (s *session) step(ctx context.Context, at *place, name string) (*place, wire.Qid, error) {
	if !at.dir {
		return nil, wire.Qid{}, fmt.Errorf("%w: walk in %q", fs.ErrNotDir, at.name)
	}
	if name == ".." && at.up != nil {
		at = at.up
	}
	if name == "." || name == ".." {
		q, _, err := s.qidOf(ctx, at.node)
		return at, q, err
	}
	if err := fs.CheckName(name); err != nil {
		return nil, wire.Qid{}, err
	}
	n, err := at.node.Walk(ctx, name)
	if err != nil {
		return nil, wire.Qid{}, err
	}
	return s.enter(ctx, at, n, name)
}

// steps walks names, however many.
func (s *session) steps(ctx context.Context, at *place, names []string) (_ *place, err error) {
	for _, name := range names {
		if at, _, err = s.step(ctx, at, name); err != nil {
			return nil, err
		}
	}
	return at, nil
}

// enter returns the place of n, which is called name in up.
func (s *session) enter(ctx context.Context, up *place, n fs.Node, name string) (*place, wire.Qid, error) {
	q, _, err := s.qidOf(ctx, n)
	if err != nil {
		return nil, wire.Qid{}, err
	}
	at := &place{node: n, name: name, up: up, dir: q.Type&qtDir != 0, qid: q.Path}
	at.way()
	return at, q, nil
}

// qidOf returns the qid of a file, and its stat, from which it is made.
func (s *session) qidOf(ctx context.Context, n fs.Node) (wire.Qid, fs.Stat, error) {
	st, err := n.Stat(ctx)
	if err != nil {
		return wire.Qid{}, fs.Stat{}, err
	}
	return s.dialect.qid(st.Mode, st.Qid, st.Vers), st, nil
}

// The types of a qid.
const (
	qtDir     = 0x80
	qtAppend  = 0x40
	qtExcl    = 0x20
	qtTmp     = 0x04
	qtSymlink = 0x02
)

// qid makes a qid. Linux takes the append and exclusive bits of 9P2000 for
// leave to cache what it must not, so it gets none.
func (d dialect) qid(mode os.FileMode, path uint64, vers uint32) wire.Qid {
	q := wire.Qid{Path: path, Vers: vers}
	switch {
	case mode.IsDir():
		q.Type = qtDir
	case mode&os.ModeSymlink != 0:
		q.Type = qtSymlink
	}
	if d == classic {
		q.Type |= uint8(dmBits(mode) >> 24)
	}
	return q
}
