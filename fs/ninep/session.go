package ninep

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"hutch/fs"
	"hutch/fs/ninep/wire"
)

// A session is what lies between two Tversions of a connection.
type session struct {
	c       *conn
	srv     *Server
	dialect dialect
	plain   bool // the client needs no trick for short reads
	msize   uint32
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup // ops
	err     lastErr

	mu     sync.Mutex // guards all below, and the fields of fid and op that say so
	tags   map[uint16]*op
	fids   map[uint32]*fid
	slots  int   // free ones
	held   int   // bytes of the requests that have one, and of their replies
	queue  []*op // those that wait for a slot, the oldest first
	queued int   // their bytes
	ended  bool
}

// An op is a request being served.
type op struct {
	request
	s      *session
	m      *message
	ctx    context.Context
	cancel context.CancelFunc
	in     *buffer // the request
	buf    *buffer // holds out
	out    []byte  // the reply, from its head on
	rtyp   uint8   // the reply's type

	// What the request is bound to when it comes in.
	f, f2   *fid
	at, at2 *place // where f and f2 were then
	open    *opened

	queued  bool     // session.mu guards it
	cost    int      // bytes that it holds, with its slot
	flushes []uint16 // tags of Tflushes that wait for the reply; session.mu guards it
}

func newSession(c *conn, d dialect, msize uint32) *session {
	s := &session{
		c: c, srv: c.srv, dialect: d, msize: msize, slots: slots,
		tags: map[uint16]*op{}, fids: map[uint32]*fid{},
	}
	// The end of c.ctx closes the connection, and only that ends requests:
	// a client must not take it for an interrupt.
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(c.ctx))
	return s
}

// writing says whether a file is open for writing.
func (s *session) writing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.fids {
		if f.open != nil && f.open.write {
			return true
		}
	}
	for _, o := range s.tags { // one that closes such a file is not answered yet
		if o.m.detach && o.f2.open != nil && o.f2.open.write {
			return true
		}
	}
	return false
}

// end cancels all requests, which are not answered any more, waits for them,
// and closes all fids.
func (s *session) end() {
	s.mu.Lock()
	s.ended = true
	for _, o := range s.queue {
		s.drop(o)
	}
	s.queue = nil
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
	leave, _ := s.srv.Each.pass() // a file may go when it is closed
	for _, f := range s.fids {
		s.shut(f)
	}
	leave()
	s.srv.Counters.Fids.Add(-int64(len(s.fids)))
	s.srv.locks.releaseAll(s)
}

// accept takes a request from the wire and starts it.
func (s *session) accept(in *buffer) {
	s.srv.Counters.Requests.Add(1)
	o := &op{s: s, in: in}
	o.buf = newBuffer(wire.HeadLen)
	o.out = o.buf.b
	err := s.parse(o)
	if err == nil && o.typ == wire.Tflush {
		s.flush(o)
		return
	}
	s.mu.Lock()
	if _, dup := s.tags[o.tag]; dup {
		err = fmt.Errorf("%w: duplicate tag %d", fs.ErrBusy, o.tag)
	}
	if len(s.tags) >= maxOps {
		err = tooMany()
	}
	if err == nil {
		err = s.bind(o)
	}
	if err != nil {
		s.mu.Unlock()
		s.refuse(o, err)
		return
	}
	o.ctx, o.cancel = context.WithCancel(s.ctx)
	o.rtyp = o.typ + 1
	s.tags[o.tag] = o
	s.running.Add(1)
	s.srv.Counters.InFlight.Add(1)
	s.c.add(load{waiting: o.weight()})
	start := s.seat(o)
	s.mu.Unlock()
	if start {
		go s.run(o)
	}
}

// parse takes the request apart.
func (s *session) parse(o *op) error {
	o.typ, o.tag = o.in.b[4], le.Uint16(o.in.b[5:])
	o.m = &messages[o.typ]
	if o.m.dialects&s.dialect == 0 {
		return fmt.Errorf("%w: message of type %d", fs.ErrUnsupported, o.typ)
	}
	cut := wire.Cutter{B: o.in.b[wire.HeadLen:]}
	for _, get := range o.m.get {
		get(&cut, &o.request)
	}
	if err := cut.End(); err != nil {
		return fmt.Errorf("%w: %s: %w", fs.ErrInvalid, o.m.name, err)
	}
	return nil
}

// bind finds the fids of o and reserves or detaches them; mu is held.
func (s *session) bind(o *op) error {
	if o.m.slot && s.queued+len(o.in.b) > queueLimit {
		return tooMany()
	}
	if o.m.bind == nil {
		return nil
	}
	return o.m.bind(s, o)
}

// seat gives o a slot if it needs one, or queues it; mu is held.
func (s *session) seat(o *op) bool {
	if !o.m.slot {
		return true
	}
	o.cost = s.weigh(o)
	if len(s.queue) == 0 && s.admit(o) {
		return true
	}
	o.queued = true
	s.c.add(load{queued: 1})
	s.queue = append(s.queue, o)
	s.queued += len(o.in.b)
	return false
}

// run serves o, and starts those that waited for its slot.
func (s *session) run(o *op) {
	slot, cost, brief := o.m.slot, o.cost, o.brief()
	if o.m.detach {
		<-o.f2.idle // outside the gate, at which the last may wait
	}
	listed, err := s.beginList(o) // outside the gate, too
	defer listed()
	leave := func() {}
	if err == nil {
		leave, err = s.srv.Each.pass()
	}
	if err == nil && o.m.entry {
		err = newIn(o.at, o.name)
	}
	if err == nil || o.m.detach {
		err = o.m.serve(s, o)
	}
	leave()
	s.finish(o, err)
	if slot {
		if brief {
			s.c.add(load{brief: -1})
		}
		s.vacate(cost)
	}
	s.next()
	s.running.Done()
}

// finish answers o, then the Tflushes that wait for it. The tags are free
// before the client can know, and as that happens under wmu, a Tflush that
// finds its tag free is answered after the reply.
func (s *session) finish(o *op, err error) {
	if err == nil && len(o.out) > int(s.msize) {
		err = fmt.Errorf("%w: reply over the message size", fs.ErrTooLarge)
	}
	if err != nil {
		s.fail(o, err)
	}
	o.owe()
	b := wire.Seal(o.out, o.rtyp, o.tag)
	s.c.wmu.Lock()
	s.mu.Lock()
	ended := s.ended
	delete(s.tags, o.tag)
	s.unreserve(o)
	for _, tag := range o.flushes {
		delete(s.tags, tag)
		b = append(b, wire.HeadLen, 0, 0, 0, wire.Rflush, byte(tag), byte(tag>>8))
	}
	s.mu.Unlock()
	if !ended {
		s.c.write(b)
	}
	s.c.wmu.Unlock()
	s.mu.Lock()
	s.release(o)
	s.mu.Unlock()
	o.pay()
	o.free()
	if s.c.left.Load() && !s.writing() {
		s.c.rw.Close()
	}
}

// fail makes the reply of o an error.
func (s *session) fail(o *op, err error) {
	s.srv.Counters.Errors.Add(1)
	s.err.last.Set(err)
	o.rtyp, o.out = s.dialect.putError(o.out[:wire.HeadLen], err)
}

// refuse answers a request that was never started.
func (s *session) refuse(o *op, err error) {
	s.fail(o, err)
	s.send(wire.Seal(o.out, o.rtyp, o.tag))
	o.in.free()
	o.buf.free()
}

func (s *session) send(b []byte) {
	s.c.wmu.Lock()
	defer s.c.wmu.Unlock()
	s.c.write(b)
}

// free gives back what o holds when it is done.
func (o *op) free() {
	o.cancel()
	o.s.srv.Counters.InFlight.Add(-1)
	o.s.c.add(load{waiting: -o.weight()})
	o.in.free()
	o.buf.free()
}

// drop forgets a queued op, which nobody answers; mu is held.
func (s *session) drop(o *op) {
	delete(s.tags, o.tag)
	s.c.add(load{queued: -1})
	s.queued -= len(o.in.b)
	s.release(o)
	o.free()
	s.running.Done()
}

// flush serves Tflush: a request that waits for a slot is dropped, one that
// runs is cancelled and answered first. It never waits.
func (s *session) flush(o *op) {
	s.mu.Lock()
	if _, dup := s.tags[o.tag]; dup {
		s.mu.Unlock()
		s.refuse(o, fmt.Errorf("%w: duplicate tag %d", fs.ErrBusy, o.tag))
		return
	}
	old := s.tags[o.oldtag]
	switch {
	case old == nil:
	case old.queued:
		s.queue = slices.DeleteFunc(s.queue, func(q *op) bool { return q == old })
		s.drop(old)
		old = nil
	default:
		// A Tflush of this Tflush finds the same request.
		old.flushes = append(old.flushes, o.tag)
		s.tags[o.tag] = old
		old.cancel()
	}
	s.mu.Unlock()
	if old == nil {
		s.send(wire.Seal(o.out, wire.Rflush, o.tag))
	}
	o.in.free()
	o.buf.free()
}

// reply returns the reply's buffer with room for n bytes after its head.
func (o *op) reply(n int) []byte {
	if wire.HeadLen+n > cap(o.buf.b) {
		o.buf.free()
		o.buf = newBuffer(wire.HeadLen + n)
	}
	return o.buf.b[:wire.HeadLen]
}
