package ninep

import (
	"context"
	"fmt"
	"syscall"

	"hutch/fs"
	"hutch/fs/ninep/wire"
)

// A listing is an open directory: a snapshot of its entries, made when it is
// read from the start. One read at a time uses it.
type listing struct {
	turn    chan struct{} // holds a token while a read uses what is below
	made    bool
	entries []fs.Entry
	plus    []fs.Described // for Treaddirplus; nil until it is made
	kept    int            // bytes of these

	// 9P2000 alone: where the next read must begin, the entry it begins
	// with, and that entry's stat if it was made but did not fit.
	off  uint64
	next int
	held []byte
}

func newListing() *listing { return &listing{turn: make(chan struct{}, 1)} }

// beginList waits until o may read a directory, if it does, and the server
// bounds how many do.
func (s *session) beginList(o *op) (end func(), err error) {
	lists := o.typ == wire.Treaddir || o.typ == wire.Treaddirplus ||
		o.typ == wire.Tread && o.open != nil && o.open.list != nil
	if s.srv.Lists == nil || !lists {
		return func() {}, nil
	}
	select {
	case s.srv.Lists <- struct{}{}:
		return func() { <-s.srv.Lists }, nil
	case <-o.ctx.Done():
		return func() {}, o.ctx.Err()
	}
}

// take waits for the listing; done gives it back.
func (l *listing) take(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *listing) done() { <-l.turn }

// listing waits for the listing of the open directory of o.
func (o *op) listing() (*listing, error) {
	if o.open == nil || o.open.list == nil {
		return nil, fmt.Errorf("%w: fid %d is no open directory", errBadFd, o.fid)
	}
	return o.open.list, o.open.list.take(o.ctx)
}

// refresh makes the snapshot.
func (s *session) refresh(l *listing, o *op) error {
	entries, err := o.at.node.List(o.ctx)
	if err != nil {
		return err
	}
	l.entries, l.made = entries, true
	l.off, l.next, l.held = 0, 0, nil
	return l.weigh(s.srv)
}

// readStats serves Tread of a directory in 9P2000: whole stats, in order.
func (s *session) readStats(o *op) error {
	l := o.open.list
	if err := l.take(o.ctx); err != nil {
		return err
	}
	defer l.done()
	if o.offset == 0 {
		if err := s.refresh(l, o); err != nil {
			return err
		}
	}
	if !l.made || o.offset != l.off {
		return fmt.Errorf("%w: bad offset %d in a directory", fs.ErrInvalid, o.offset)
	}
	room := int(min(o.count, s.msize-wire.ReadLen, listBuffer))
	o.out = wire.Put32(o.reply(4+room), 0)
	for l.next < len(l.entries) {
		b, err := s.nextStat(o, l)
		if err != nil {
			return err
		}
		if len(o.out)+len(b) > wire.ReadLen+room {
			l.held = b
			break
		}
		o.out = append(o.out, b...)
		l.held = nil
		l.next++
	}
	l.off += uint64(len(o.out) - wire.ReadLen)
	return o.listed(room, l.next < len(l.entries))
}

// listed completes the reply to a read of a directory, which is to have an
// entry if there is one.
func (o *op) listed(room int, more bool) error {
	n := len(o.out) - wire.ReadLen
	if n == 0 && more {
		return fmt.Errorf("%w: no room for an entry in %d bytes", fs.ErrInvalid, room)
	}
	le.PutUint32(o.out[wire.HeadLen:], uint32(n))
	return nil
}

// nextStat returns the stat of the listing's next entry, and nothing for one
// that is gone.
func (s *session) nextStat(o *op, l *listing) ([]byte, error) {
	if l.held != nil {
		return l.held, nil
	}
	e := l.entries[l.next]
	st, err := statOf(o.ctx, o.at.node, e.Name)
	if o.ctx.Err() != nil {
		return nil, o.ctx.Err()
	}
	if fs.Errno(err) == syscall.ENOENT {
		return nil, nil
	}
	if err != nil {
		// Listing goes on past a file that cannot say what it is.
		st = fs.Stat{Mode: e.Mode, Qid: e.Qid}
	}
	st.Name = e.Name
	return s.putStat(nil, st), nil
}

func statOf(ctx context.Context, dir fs.Node, name string) (fs.Stat, error) {
	n, err := dir.Walk(ctx, name)
	if err != nil {
		return fs.Stat{}, err
	}
	return n.Stat(ctx)
}

// readdir serves Treaddir. The offset of an entry is its place in the
// snapshot; "." and ".." are the first two.
func (s *session) readdir(o *op) error {
	l, err := o.listing()
	if err != nil {
		return err
	}
	defer l.done()
	if o.offset == 0 || !l.made {
		if err := s.refresh(l, o); err != nil {
			return err
		}
	}
	room := int(min(o.count, s.msize-wire.ReadLen))
	o.out = wire.Put32(o.reply(4+room), 0)
	full := false
	for i := o.offset; i < uint64(len(l.entries))+2 && !full; i++ {
		e, err := l.entry(o.ctx, o.at, int(i))
		if err != nil {
			return err
		}
		if full = len(o.out)+wire.QidLen+8+1+2+len(e.Name) > wire.ReadLen+room; !full {
			o.out = s.putEntry(o.out, e, i+1)
		}
	}
	return o.listed(room, full)
}

// readdirplus serves Treaddirplus, of directories that can tell what their
// files are like: fid[4] offset[8] count[4] nwname[2] nwname*(wname[s]). With
// names it is of the directory that they lead to from fid, which need not be
// open; without, of the open fid. The reply has count[4] and, an entry,
// next[8] name[s] target[s] and the fields of Rgetattr; next is 0 in the last.
// There is no "." and no "..".
func (s *session) readdirplus(o *op) error {
	if len(o.names) > 0 {
		if len(o.names) > wire.MaxWalk {
			return tooDeep()
		}
		at, err := s.steps(o.ctx, o.at, o.names)
		if err != nil {
			return err
		}
		list, err := fs.Describe(o.ctx, at.node)
		if err != nil {
			return err
		}
		return s.putDescribed(o, list)
	}
	l, err := o.listing()
	if err != nil {
		return err
	}
	defer l.done()
	if o.offset == 0 || l.plus == nil {
		list, err := fs.Describe(o.ctx, o.at.node)
		if err != nil {
			return err
		}
		l.plus = append([]fs.Described{}, list...)
		if err := l.weigh(s.srv); err != nil {
			return err
		}
	}
	return s.putDescribed(o, l.plus)
}

// putDescribed puts what there is room for into the reply.
func (s *session) putDescribed(o *op, list []fs.Described) error {
	room := int(min(o.count, s.msize-wire.ReadLen))
	o.out = wire.Put32(o.reply(4+room), 0)
	for i := o.offset; i < uint64(len(list)); i++ {
		e := &list[i]
		if len(o.out)+8+2+len(e.Name)+2+len(e.Target)+wire.AttrLen > wire.ReadLen+room {
			break
		}
		next := (i + 1) % uint64(len(list))
		o.out = wire.PutString(wire.PutString(wire.Put64(o.out, next), e.Name), e.Target)
		o.out = wire.PutAttr(o.out, s.dialect.qid(e.Mode, e.Qid, e.Vers), e.Stat)
	}
	return o.listed(room, o.offset < uint64(len(list)))
}

// entry returns the i'th entry of the directory at, with "." and "..".
func (l *listing) entry(ctx context.Context, at *place, i int) (fs.Entry, error) {
	if i >= 2 {
		return l.entries[i-2], nil
	}
	name := "."
	if i == 1 {
		name = ".."
		if at.up != nil {
			at = at.up
		}
	}
	st, err := at.node.Stat(ctx)
	return fs.Entry{Name: name, Mode: st.Mode, Qid: st.Qid}, err
}

func (s *session) putEntry(b []byte, e fs.Entry, next uint64) []byte {
	b = wire.PutQid(b, s.dialect.qid(e.Mode, e.Qid, 0))
	b = wire.Put64(b, next)
	return wire.PutString(append(b, wire.TypeByte(e.Mode)), e.Name)
}
