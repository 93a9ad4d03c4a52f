package ninep

import (
	"cmp"
	"context"
	"fmt"
	"syscall"

	"hutch/fs"
	"hutch/fs/ninep/wire"
)

// A place is a file and the way to it. Places do not change.
type place struct {
	node fs.Node
	name string
	up   *place // the directory it is in; nil where the client attached
	dir  bool
	qid  uint64 // tells directories apart

	length int // bytes of the way to it
	kept   int // bytes of the places on it
}

// A fid is a client's name for a file. session.mu guards its fields.
type fid struct {
	place *place // nil while the walk that makes the fid is under way
	kept  int    // bytes that are counted for it
	open  *opened
	busy  bool // an open or create is under way
	refs  int  // ops bound to it
	idle  chan struct{}
	shut  bool // it keeps nothing any more
}

// An opened is what an open fid has besides.
type opened struct {
	handle fs.Handle // nil for directories
	leave  func()    // the server's gate, with the handle
	list   *listing  // of directories
	read   bool
	write  bool
	remove bool // when closed (ORCLOSE)
	stream stream
}

func badFid(num uint32) error {
	return fmt.Errorf("%w: unknown fid %d", errBadFd, num)
}

func fidInUse(num uint32) error {
	return fmt.Errorf("%w: fid %d", fs.ErrBusy, num)
}

// lookup returns the fid called num; mu is held.
func (s *session) lookup(num uint32) (*fid, error) {
	f, ok := s.fids[num]
	if !ok || f.place == nil {
		return nil, badFid(num)
	}
	return f, nil
}

// bindFid binds o to its fid.
func bindFid(s *session, o *op) error {
	f, err := s.lookup(o.fid)
	if err != nil {
		return err
	}
	f.refs++
	o.f, o.at, o.open = f, f.place, f.open
	return nil
}

// bindTwo binds o to two fids that are both there.
func bindTwo(s *session, o *op) error {
	f2, err := s.lookup(o.fid2)
	if err != nil {
		return err
	}
	if err := bindFid(s, o); err != nil {
		return err
	}
	f2.refs++
	o.f2, o.at2 = f2, f2.place
	return nil
}

// bindNew reserves the fid of a Tattach.
func bindNew(s *session, o *op) error {
	f, err := s.reserve(o.fid)
	o.f = f
	return err
}

// bindWalk binds a Twalk to its fid and reserves newfid, if they differ.
func bindWalk(s *session, o *op) error {
	if _, err := s.lookup(o.fid); err != nil {
		return err
	}
	if o.fid2 != o.fid {
		f2, err := s.reserve(o.fid2)
		if err != nil {
			return err
		}
		o.f2 = f2
	}
	return bindFid(s, o)
}

// reserve puts a fid without a place into the table; mu is held.
func (s *session) reserve(num uint32) (*fid, error) {
	if num == wire.NoFid {
		return nil, badFid(num)
	}
	if s.fids[num] != nil {
		return nil, fidInUse(num)
	}
	if len(s.fids) >= maxFids {
		return nil, fmt.Errorf("%w: the connection has %d fids", syscall.EMFILE, maxFids)
	}
	if s.srv.Counters.Fids.Add(1) > maxAllFids {
		s.srv.Counters.Fids.Add(-1)
		return nil, fmt.Errorf("%w: all connections have %d fids", syscall.ENFILE, maxAllFids)
	}
	f := &fid{refs: 1}
	s.fids[num] = f
	return f, nil
}

// bindDetach takes the fid of a Tclunk or Tremove out of the table and
// cancels what is under way on it.
func bindDetach(s *session, o *op) error {
	f, err := s.lookup(o.fid)
	if err != nil {
		return err
	}
	o.f2 = f // not counted in refs, for which o waits
	s.forget(o.fid)
	f.idle = make(chan struct{})
	for _, other := range s.tags {
		if other.f == f || other.f2 == f {
			other.cancel()
		}
	}
	s.dropQueued(f)
	if f.refs == 0 {
		close(f.idle)
	}
	return nil
}

// dropQueued moves the queued ops of f, which are cancelled, out of the queue
// so that nobody waits for their slots; mu is held.
func (s *session) dropQueued(f *fid) {
	kept := s.queue[:0]
	for _, o := range s.queue {
		if o.f != f {
			kept = append(kept, o)
			continue
		}
		o.queued = false
		s.queued -= len(o.in.b)
		s.c.add(load{queued: -1})
		go s.interrupt(o)
	}
	s.queue = kept
}

// interrupt answers an op that was cancelled before it started.
func (s *session) interrupt(o *op) {
	s.finish(o, context.Canceled)
	s.next()
	s.running.Done()
}

func (s *session) forget(num uint32) {
	delete(s.fids, num)
	s.srv.Counters.Fids.Add(-1)
}

// release unbinds o from its fids; mu is held.
func (s *session) release(o *op) {
	if o.m.detach {
		return
	}
	for _, f := range [...]*fid{o.f, o.f2} {
		if f == nil {
			continue
		}
		f.refs--
		if f.refs == 0 && f.idle != nil {
			close(f.idle)
		}
	}
}

// settle gives the reserved fid f a place.
func (s *session) settle(f *fid, at *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(f, at)
}

// unreserve takes back the number of a fid that o reserved and that got no
// place; mu is held.
func (s *session) unreserve(o *op) {
	if o.f != nil && o.f.place == nil {
		s.forget(o.fid)
	}
	if o.f2 != nil && o.f2.place == nil {
		s.forget(o.fid2)
	}
}

// hold makes the file that open opens what is open, if the server has room.
func (s *session) hold(o *opened, open func() (fs.Handle, error)) error {
	leave, err := s.srv.Open.pass()
	if err != nil {
		return err
	}
	h, err := open()
	if err != nil { // then h is nothing, even if it is not nil
		leave()
		return err
	}
	o.handle, o.leave = h, leave
	return nil
}

func (o *opened) close() error {
	if o.handle == nil {
		return nil
	}
	defer o.leave()
	return o.handle.Close()
}

// shut closes what the fid has open. Nothing else uses the fid any more.
func (s *session) shut(f *fid) error {
	defer s.forgetKept(f)
	if f.open == nil {
		return nil
	}
	err := f.open.close()
	if f.open.remove {
		// The client may be gone; the file goes all the same.
		rerr := f.place.up.node.Remove(context.Background(), f.place.name, f.place.dir)
		err = cmp.Or(err, rerr)
	}
	return err
}

// flush has an open file do what was written but not finished, as closing a
// descriptor of it does. A lost connection finishes nothing.
func (f *fid) flush(ctx context.Context) error {
	if f.open == nil || f.open.handle == nil {
		return nil
	}
	return f.open.handle.Flush(ctx)
}

// clunk serves Tclunk. The fid is gone whatever the answer; an error is that
// of closing the file.
func (s *session) clunk(o *op) error {
	f := o.f2
	s.srv.locks.release(f)
	err := f.flush(o.ctx)
	return cmp.Or(err, s.shut(f))
}

// remove serves Tremove, which is a clunk, too, whatever becomes of it.
func (s *session) remove(o *op) error {
	f := o.f2
	s.srv.locks.release(f)
	f.flush(o.ctx) // of a file that goes, only the removal can fail
	if f.open != nil {
		f.open.remove = false
	}
	s.shut(f)
	if f.place.up == nil {
		return fmt.Errorf("%w: remove of the root", fs.ErrNotPermitted)
	}
	return f.place.up.node.Remove(o.ctx, f.place.name, f.place.dir)
}
