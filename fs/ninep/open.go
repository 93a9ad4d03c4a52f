package ninep

import (
	"fmt"
	"os"

	"hutch/fs"
	"hutch/fs/ninep/wire"
)

// The mode of Topen and Tcreate.
const (
	modeExec   = 3
	modeTrunc  = 0x10
	modeRclose = 0x40
)

// classicFlags returns what fs.Open takes for a mode of 9P2000.
func classicFlags(mode uint32) int {
	flags := int(mode & 3)
	if flags == modeExec {
		flags = os.O_RDONLY
	}
	if mode&modeTrunc != 0 {
		flags |= os.O_TRUNC
	}
	return flags
}

// access returns which way a file is open with flags.
func access(flags int) (read, write bool) {
	mode := flags & (os.O_WRONLY | os.O_RDWR)
	return mode != os.O_WRONLY, mode != os.O_RDONLY
}

func (s *session) openClassic(o *op) error {
	return s.openFid(o, classicFlags(o.flags), o.flags&modeRclose != 0)
}

func (s *session) openLinux(o *op) error {
	if o.flags&3 == 3 {
		return fmt.Errorf("%w: open for nothing", fs.ErrInvalid)
	}
	if o.flags&wire.Directory != 0 && !o.at.dir {
		return fs.ErrNotDir
	}
	return s.openFid(o, wire.Flags(o.flags)&^os.O_EXCL, false)
}

// openFid opens the fid of o.
func (s *session) openFid(o *op, flags int, remove bool) error {
	if remove && o.at.up == nil {
		return fs.ErrNotPermitted
	}
	if err := s.beginOpen(o); err != nil {
		return err
	}
	open := &opened{remove: remove}
	open.read, open.write = access(flags)
	err := s.openPlace(o, open, flags)
	var q wire.Qid
	if err == nil {
		q, _, err = s.qidOf(o.ctx, o.at.node)
	}
	return s.endOpen(o, o.at, q, open, err)
}

// openPlace opens the file at o.at; a directory is only listed.
func (s *session) openPlace(o *op, open *opened, flags int) error {
	if !o.at.dir {
		return s.hold(open, func() (fs.Handle, error) { return o.at.node.Open(o.ctx, flags) })
	}
	if open.write || flags&os.O_TRUNC != 0 {
		return fs.ErrIsDir
	}
	open.list = newListing()
	return nil
}

// beginOpen keeps others from opening the fid of o, or refuses.
func (s *session) beginOpen(o *op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.f.open != nil || o.f.busy {
		return fidInUse(o.fid)
	}
	o.f.busy = true
	o.at = o.f.place
	return nil
}

// endOpen makes the fid of o the open file at, and the reply to an open or
// create; after an error, it leaves the fid as it was.
func (s *session) endOpen(o *op, at *place, q wire.Qid, open *opened, err error) error {
	if err != nil {
		open.close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o.f.busy = false
	if err != nil {
		return err
	}
	s.put(o.f, at)
	o.f.open = open
	o.out = wire.Put32(wire.PutQid(o.out, q), s.msize-ioHead)
	return nil
}

// ioHead is what clients take off the message size for the head of a Twrite.
const ioHead = 24

func (s *session) createLinux(o *op) error {
	if o.flags&3 == 3 {
		return fmt.Errorf("%w: create for nothing", fs.ErrInvalid)
	}
	return s.create(o, wire.Flags(o.flags), os.FileMode(o.perm).Perm(), false)
}

// createClassic serves Tcreate, whose permissions are limited by those of the
// directory. A file that is there already is opened, emptied.
func (s *session) createClassic(o *op) error {
	if o.perm&(dmSymlink|dmDevice|dmNamedPipe|dmSocket|dmAuth|dmMount) != 0 {
		return fmt.Errorf("%w: create of a special file", fs.ErrNotPermitted)
	}
	st, err := o.at.node.Stat(o.ctx)
	if err != nil {
		return err
	}
	perm := os.FileMode(o.perm&0o777) & (^os.FileMode(0o666) | st.Mode.Perm()&0o666)
	if o.perm&dmDir != 0 {
		return s.createDir(o, os.FileMode(o.perm&0o777)&(^os.FileMode(0o777)|st.Mode.Perm()))
	}
	return s.create(o, classicFlags(o.flags)|os.O_TRUNC, perm, o.flags&modeRclose != 0)
}

// create makes a file in the directory o.f, which becomes that file, open.
func (s *session) create(o *op, flags int, perm os.FileMode, remove bool) error {
	open := &opened{remove: remove}
	open.read, open.write = access(flags)
	return s.become(o, open, func() (n fs.Node, err error) {
		err = s.hold(open, func() (h fs.Handle, err error) {
			n, h, err = o.at.node.Create(o.ctx, o.name, flags, perm)
			return h, err
		})
		return n, err
	})
}

// createDir makes a directory in the directory o.f, which becomes it, open.
func (s *session) createDir(o *op, perm os.FileMode) error {
	if _, write := access(classicFlags(o.flags)); write || o.flags&modeTrunc != 0 {
		return fs.ErrIsDir
	}
	open := &opened{read: true, list: newListing(), remove: o.flags&modeRclose != 0}
	return s.become(o, open, func() (fs.Node, error) {
		return o.at.node.Mkdir(o.ctx, o.name, perm)
	})
}

// become makes a file and turns the fid of o into it.
func (s *session) become(o *op, open *opened, build func() (fs.Node, error)) error {
	if err := fs.CheckName(o.name); err != nil {
		return err
	}
	if !o.at.dir {
		return fs.ErrNotDir
	}
	room := o.at.keepAfter([]string{o.name})
	if err := s.srv.keep(room); err != nil {
		return err
	}
	defer s.srv.giveUp(room)
	if err := s.beginOpen(o); err != nil {
		return err
	}
	n, err := build()
	var at *place
	var q wire.Qid
	if err == nil {
		at, q, err = s.enter(o.ctx, o.at, n, o.name)
	}
	return s.endOpen(o, at, q, open, err)
}
