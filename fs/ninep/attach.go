package ninep

import (
	"fmt"
	"strings"

	"hutch/fs"
)

// auth serves Tauth: who may connect was decided before. Clients of 9P2000.L
// (diod's among them) take error 0 for that, those of 9P2000 any error.
func (s *session) auth(o *op) error {
	if s.dialect == linux {
		o.rtyp, o.out = Rlerror, put32(o.out, 0)
		return nil
	}
	o.rtyp, o.out = Rerror, putString(o.out, "no authentication needed")
	return nil
}

// attach serves Tattach. An aname that is a path attaches to what lies there,
// errName to the session's own last error.
func (s *session) attach(o *op) error {
	at, q, err := s.root(o)
	s.settle(o.fid, o.f, at)
	if err != nil {
		return err
	}
	o.out = putQid(o.out, q)
	return nil
}

func (s *session) root(o *op) (*place, qid, error) {
	if o.fid2 != nofid {
		return nil, qid{}, fmt.Errorf("%w: no authentication needed", fs.ErrInvalid)
	}
	at := &place{node: s.srv.Root, dir: true}
	if o.name2 == errName {
		at.node, o.name2 = &s.err, ""
	}
	for name := range strings.SplitSeq(o.name2, "/") {
		if name == "" || name == "." {
			continue
		}
		next, _, err := s.step(o.ctx, at, name)
		if err != nil {
			return nil, qid{}, err
		}
		at = next
	}
	q, _, err := s.qidOf(o.ctx, at.node)
	if err != nil {
		return nil, qid{}, err
	}
	return &place{node: at.node, dir: q.typ&qtDir != 0, qid: q.path}, q, nil // nothing is above it
}
