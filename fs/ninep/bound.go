package ninep

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"hutch/fs"
	"hutch/fs/ninep/wire"
)

// What a client may take. Where it can, a client waits: a request for a slot
// and room, and all of a connection for a client that does not read its
// replies. Only Tflush must not wait for requests, so that what is too many
// of those is refused.
const (
	slots      = 1024     // reads and writes under way on a connection
	maxOps     = 4096     // requests under way, those that wait for a slot among them
	queueLimit = 16 << 20 // bytes of requests that wait for a slot

	ownRoom  = 2 << 20   // bytes that the reads and writes of a connection may hold
	connRoom = 64 << 20  // the same, while
	allRoom  = 128 << 20 // those of all connections hold less than this

	streamBuffer = 64<<10 - wire.ReadLen // of a read of a stream, which may last
	listBuffer   = 64<<10 - wire.ReadLen // of a read of a directory, which needs no slot

	maxFids    = 1 << 16
	maxAllFids = 1 << 18 // of all connections

	maxLocks  = 1 << 12 // of all connections
	maxLocker = 256     // bytes of who has one, as a client says

	maxWaiting = 1 << 20 // bytes of the requests and replies of a client that does not read
	maxQueued  = 256     // requests of one that wait for a slot while reads of what does not block are under way
	opRoom     = 8 << 10 // of these, what a request takes besides: above all a stack

	giveAfter = 2 * time.Second // from the end of such a client until its memory goes back
)

// streams says whether reads may block at the end of what is open.
func (o *opened) streams() bool {
	return o.handle != nil && o.handle.Stream()
}

// weigh returns how many bytes a request holds, with its reply.
func (s *session) weigh(o *op) int {
	count := min(o.count, s.msize-wire.ReadLen)
	switch {
	case o.typ == wire.Twrite:
		count = 0
	case o.open != nil && o.open.streams():
		count = min(count, streamBuffer)
	}
	return bufferSize(len(o.in.b)) + bufferSize(wire.ReadLen+int(count))
}

// admit gives o a slot, if there is one and room for what o holds; mu is held.
func (s *session) admit(o *op) bool {
	held := s.held + o.cost
	if s.slots == 0 || held > ownRoom && (held > connRoom || s.srv.held.Load()+int64(o.cost) > allRoom) && s.held > 0 {
		return false
	}
	if s.held > 0 && s.c.isFull() {
		return false
	}
	if o.brief() {
		s.c.add(load{brief: 1})
	}
	s.slots--
	s.held = held
	s.srv.held.Add(int64(o.cost))
	return true
}

// vacate gives a slot and room back.
func (s *session) vacate(cost int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots++
	s.held -= cost
	s.srv.held.Add(-int64(cost))
}

// next starts those that wait for a slot, as far as they get one. It is called
// when any request is done, with or without a slot: they may have waited for the
// client to take its reply, while all that have slots are reads that last.
func (s *session) next() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) > 0 && s.admit(s.queue[0]) {
		o := s.queue[0]
		s.queue = s.queue[1:]
		s.queued -= len(o.in.b)
		o.queued = false
		s.c.add(load{queued: -1})
		go s.run(o)
	}
}

// tooMany returns the error for requests that cannot even wait.
func tooMany() error {
	return fmt.Errorf("%w: too many requests under way: wait for some, or flush them", fs.ErrAgain)
}

// owe notes that a reply waits to be sent, in a buffer that is not larger than
// it needs: reads may have asked for far more than there was.
func (o *op) owe() {
	if size := bufferSize(len(o.out)); 2*size <= cap(o.buf.b) || cap(o.out) > cap(o.buf.b) {
		b := newBuffer(len(o.out))
		copy(b.b, o.out)
		o.buf.free()
		o.buf, o.out = b, b.b
	}
	o.s.c.add(load{owed: 1, waiting: cap(o.buf.b)})
}

// pay notes that the reply was sent.
func (o *op) pay() { o.s.c.add(load{owed: -1, waiting: -cap(o.buf.b)}) }

// weight is what o holds while it is under way, but for its reply.
func (o *op) weight() int { return opRoom + bufferSize(len(o.in.b)) }

// brief says whether o is a read that ends soon, or else waits for the client.
func (o *op) brief() bool { return o.typ == wire.Tread && (o.open == nil || !o.open.streams()) }

// A load is what a client has under way.
type load struct {
	owed    int // replies that wait to be sent
	waiting int // bytes of them, and of all requests
	queued  int // requests that wait for a slot
	brief   int // reads that have one, and end soon
}

// add notes that there is more, or less.
func (c *conn) add(more load) {
	c.loadMu.Lock()
	defer c.loadMu.Unlock()
	c.load.owed += more.owed
	c.load.waiting += more.waiting
	c.load.queued += more.queued
	c.load.brief += more.brief
	c.paid.Signal()
}

// full says whether the client has to read before it gets more; loadMu is held.
func (c *conn) full() bool {
	return c.load.owed > 0 && c.load.waiting > maxWaiting
}

func (c *conn) isFull() bool {
	c.loadMu.Lock()
	defer c.loadMu.Unlock()
	return c.full()
}

// awaitReader waits for a client that does not read its replies. The end of
// the connection ends that, too: what cannot be sent does not wait.
func (c *conn) awaitReader() {
	c.loadMu.Lock()
	defer c.loadMu.Unlock()
	for c.full() || c.load.brief > 0 && c.load.queued > maxQueued {
		c.stalled = true
		c.paid.Wait()
	}
}

// giveBack has what a client held that did not read go back to the system, soon
// and once for many: else it stays for minutes.
func (s *Server) giveBack() {
	if s.giving.CompareAndSwap(false, true) {
		time.AfterFunc(giveAfter, func() {
			s.giving.Store(false)
			runtime.GC() // which pools survive once
			debug.FreeOSMemory()
		})
	}
}
