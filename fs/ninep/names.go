package ninep

import (
	"fmt"
	"os"

	"hutch/fs"
	"hutch/fs/ninep/wire"
)

// made makes the reply to a request that made a file.
func (s *session) made(o *op, n fs.Node, err error) error {
	if err != nil {
		return err
	}
	q, _, err := s.qidOf(o.ctx, n)
	o.out = wire.PutQid(o.out, q)
	return err
}

// newIn says whether a file called name can be made in the directory at.
func newIn(at *place, name string) error {
	if !at.dir {
		return fs.ErrNotDir
	}
	return fs.CheckName(name)
}

func (s *session) mkdir(o *op) error {
	n, err := o.at.node.Mkdir(o.ctx, o.name, fs.Permissions(o.perm))
	return s.made(o, n, err)
}

func (s *session) symlink(o *op) error {
	n, err := o.at.node.Symlink(o.ctx, o.name, o.name2)
	return s.made(o, n, err)
}

func (s *session) readlink(o *op) error {
	target, err := o.at.node.Readlink(o.ctx)
	if err != nil {
		return err
	}
	o.out = wire.PutString(o.out, target)
	return nil
}

// link serves Tlink: the second fid gets another name in the first.
func (s *session) link(o *op) error {
	_, err := o.at.node.Link(o.ctx, o.name, o.at2.node)
	return err
}

// mknod serves Tmknod. Linux makes ordinary files by it now and then; there
// are no devices here.
func (s *session) mknod(o *op) error {
	if o.perm&fs.UnixType != 0 && !fs.FileMode(o.perm).IsRegular() {
		return fmt.Errorf("%w: mknod of a special file", fs.ErrNotPermitted)
	}
	n, h, err := o.at.node.Create(o.ctx, o.name, os.O_WRONLY|os.O_EXCL, os.FileMode(o.perm).Perm())
	if err != nil {
		return err
	}
	if err := h.Close(); err != nil {
		return err
	}
	return s.made(o, n, nil)
}

func (s *session) unlinkat(o *op) error {
	return o.at.node.Remove(o.ctx, o.name, o.flags&wire.RemoveDir != 0)
}

// renameat serves Trenameat.
func (s *session) renameat(o *op) error { return s.moveTo(o, o.at, o.name, o.at2, o.name2) }

// rename serves Trename, which moves the file of a fid.
func (s *session) rename(o *op) error {
	if o.at.up == nil {
		return fmt.Errorf("%w: rename of the root", fs.ErrNotPermitted)
	}
	return s.moveTo(o, o.at.up, o.at.name, o.at2, o.name)
}

// moveTo moves the file called name in from to newname in to.
func (s *session) moveTo(o *op, from *place, name string, to *place, newname string) error {
	if err := newIn(from, name); err != nil {
		return err
	}
	if err := newIn(to, newname); err != nil {
		return err
	}
	if err := from.node.Rename(o.ctx, name, to.node, newname); err != nil {
		return err
	}
	s.follow(from, name, to, newname)
	return nil
}

// follow gives the session's fids of a file that was moved, and of all below
// it, their new places: nodes may know themselves by the way to them. Who
// cannot be found again, or has no room for a longer way, stays where it was.
func (s *session) follow(from *place, name string, to *place, newname string) {
	s.mu.Lock()
	moved := map[*fid]*place{}
	for _, f := range s.fids {
		if f.place != nil && f.place.below(from, name) >= 0 {
			moved[f] = f.place
		}
	}
	s.mu.Unlock()
	for f, old := range moved {
		at, err := s.again(old, old.below(from, name), to, newname)
		if err != nil {
			continue
		}
		if s.srv.keep(at.kept) != nil {
			return
		}
		s.mu.Lock()
		if f.place == old {
			s.put(f, at)
		}
		s.mu.Unlock()
		s.srv.giveUp(at.kept)
	}
}

// below returns how many directories p is below the file called name in the
// directory dir, or -1.
func (p *place) below(dir *place, name string) int {
	for n := 0; p.up != nil; n++ {
		if p.name == name && p.up.qid == dir.qid {
			return n
		}
		p = p.up
	}
	return -1
}

// again walks to what was old, depth directories below what is now called
// newname in the directory to.
func (s *session) again(old *place, depth int, to *place, newname string) (*place, error) {
	if depth > 0 {
		var err error
		if to, err = s.again(old.up, depth-1, to, newname); err != nil {
			return nil, err
		}
		newname = old.name
	}
	at, _, err := s.step(s.ctx, to, newname)
	return at, err
}
