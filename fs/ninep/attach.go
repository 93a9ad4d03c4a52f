package ninep

import (
	"fmt"

	"hutch/fs"
	"hutch/fs/ninep/wire"
)

// auth serves Tauth: who may connect was decided before. Clients of 9P2000.L
// (diod's among them) take error 0 for that, those of 9P2000 any error.
func (s *session) auth(o *op) error {
	if s.dialect == linux {
		o.rtyp, o.out = wire.Rlerror, wire.Put32(o.out, 0)
		return nil
	}
	o.rtyp, o.out = wire.Rerror, wire.PutString(o.out, "no authentication needed")
	return nil
}

// attach serves Tattach. An aname that is a path attaches to what lies there,
// errName to the session's own last error.
func (s *session) attach(o *op) error {
	at, q, err := s.root(o)
	s.settle(o.f, at)
	if err != nil {
		return err
	}
	o.out = wire.PutQid(o.out, q)
	return nil
}

func (s *session) root(o *op) (*place, wire.Qid, error) {
	if o.fid2 != wire.NoFid {
		return nil, wire.Qid{}, fmt.Errorf("%w: no authentication needed", fs.ErrInvalid)
	}
	who := fs.Principal{UID: s.c.uid, User: o.name}
	at := &place{node: fs.For(s.srv.Root, who), dir: true}
	if o.name2 == errName {
		at.node, o.name2 = &s.err, ""
	}
	names := wire.Path(o.name2)
	room := at.keepAfter(names)
	if err := s.srv.keep(room); err != nil {
		return nil, wire.Qid{}, err
	}
	defer s.srv.giveUp(room)
	at, err := s.steps(o.ctx, at, names)
	if err != nil {
		return nil, wire.Qid{}, err
	}
	q, _, err := s.qidOf(o.ctx, at.node)
	if err != nil {
		return nil, wire.Qid{}, err
	}
	top := &place{node: at.node, dir: q.Type&qtDir != 0, qid: q.Path, length: at.length} // nothing is above it
	top.way()
	return top, q, nil
}
