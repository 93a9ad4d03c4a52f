package client

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"sync"

	"hutch/fs"
	"hutch/fs/ninep"
)

var le = binary.LittleEndian

const headLen = 7

// A guard is the connection that the library sees. It does what the library
// does not: it writes each message at once, notices a lost connection when
// nobody waits for a reply, never fails a write (after which the library
// would give the request's slot to another while it still waits in a table;
// the reader tells all of the end instead), and lets through only replies
// that somebody waits for and that are what was asked for.
type guard struct {
	c     net.Conn
	r     *bufio.Reader
	ready chan int      // a reply of that size is there for the library to read
	taken chan struct{} // the library has read it
	left  int           // what the library has still to read of it
	stop  chan struct{}
	once  sync.Once
	done  chan struct{} // closed when the reading goroutine has ended
	err   error         // why, after done

	out []byte // of a message being written; only one is at a time

	mu     sync.Mutex // guards all below
	sent   *sync.Cond
	asked  map[uint16]asked
	counts map[uint32]uint64 // requests sent on each fid that is watched
	lost   bool
	msize  uint32
}

// asked is a request without a reply.
type asked struct {
	typ   uint8
	count uint32 // of bytes
}

func newGuard(c net.Conn) *guard {
	g := &guard{
		c: c, r: bufio.NewReaderSize(c, 16<<10), msize: msize,
		ready: make(chan int), taken: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{}),
		asked: map[uint16]asked{}, counts: map[uint32]uint64{},
	}
	g.sent = sync.NewCond(&g.mu)
	go g.watchReplies()
	return g
}

// Close ends the connection and waits for the reading goroutine.
func (g *guard) Close() error {
	g.hangup()
	<-g.done
	return nil
}

func (g *guard) hangup() {
	g.once.Do(func() { close(g.stop) })
	g.c.Close()
}

// watchReplies waits for replies, checks each, and has the library read it.
func (g *guard) watchReplies() {
	err := g.pass()
	g.hangup()
	g.err = err
	g.mu.Lock()
	g.lost = true
	g.sent.Broadcast()
	g.mu.Unlock()
	close(g.done)
}

func (g *guard) pass() error {
	for {
		size, err := g.check()
		if err != nil {
			return err
		}
		select {
		case g.ready <- size:
		case <-g.stop:
			return net.ErrClosed
		}
		select {
		case <-g.taken:
		case <-g.stop:
			return net.ErrClosed
		}
	}
}

// Read gives the library what was checked.
func (g *guard) Read(p []byte) (int, error) {
	if g.left == 0 {
		select {
		case g.left = <-g.ready:
		case <-g.done:
			return 0, fmt.Errorf("connection: %w", g.err)
		}
	}
	n, err := g.r.Read(p[:min(len(p), g.left)])
	if err != nil {
		g.hangup()
		return n, err
	}
	g.left -= n
	if g.left == 0 {
		g.taken <- struct{}{}
	}
	return n, nil
}

// Write takes a message in parts, as the library makes them, and sends it
// when it is whole. The data of a Twrite, its last part, is not copied.
func (g *guard) Write(p []byte) (int, error) {
	const writeHead = headLen + 16
	if len(g.out) == writeHead && g.out[4] == ninep.Twrite {
		g.note(g.out)
		g.send(g.out, p)
		g.out = g.out[:0]
		return len(p), nil
	}
	g.out = append(g.out, p...)
	if len(g.out) >= headLen && len(g.out) >= int(le.Uint32(g.out)) {
		g.note(g.out)
		g.send(g.out)
		g.out = g.out[:0]
	}
	return len(p), nil
}

func (g *guard) send(parts ...[]byte) {
	bufs := net.Buffers(parts)
	if _, err := bufs.WriteTo(g.c); err != nil {
		g.hangup()
	}
}

// note remembers a request, of which b is all but the data.
func (g *guard) note(b []byte) {
	a := asked{typ: b[4]}
	var fid uint32
	if len(b) >= headLen+4 {
		fid = le.Uint32(b[headLen:])
	}
	switch a.typ {
	case ninep.Tread, ninep.Twrite, ninep.Treaddir:
		if len(b) >= headLen+16 {
			a.count = le.Uint32(b[headLen+12:])
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked[le.Uint16(b[5:])] = a
	if n, ok := g.counts[fid]; ok && onFid[a.typ] {
		g.counts[fid] = n + 1
		g.sent.Broadcast()
	}
}

// onFid has the requests that a File makes.
var onFid = map[uint8]bool{
	ninep.Tread: true, ninep.Twrite: true, ninep.Tgetattr: true, ninep.Tfsync: true,
}

// watch begins to count the requests on a fid.
func (g *guard) watch(fid uint32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counts[fid] = 0
}

// awaitSent waits until n requests on a fid are sent, and counts no more.
func (g *guard) awaitSent(fid uint32, n uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.counts[fid] < n && !g.lost {
		g.sent.Wait()
	}
	delete(g.counts, fid)
}

// size returns the message size that the server agreed to.
func (g *guard) size() uint32 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.msize
}

// check waits for a reply and returns its size, if it is one to a request
// and well made.
func (g *guard) check() (int, error) {
	head, err := g.r.Peek(headLen)
	if err != nil {
		return 0, err
	}
	size, typ, tag := le.Uint32(head), head[4], le.Uint16(head[5:])
	g.mu.Lock()
	a, ok := g.asked[tag]
	delete(g.asked, tag)
	limit := g.msize
	g.mu.Unlock()
	if !ok || typ != ninep.Rlerror && typ != a.typ+1 || size > limit {
		return 0, fmt.Errorf("%w: unexpected reply: type %d, tag %d, %d bytes", fs.ErrIO, typ, tag, size)
	}
	if err := g.checkBody(a, typ, size); err != nil {
		return 0, fmt.Errorf("%w: reply of type %d: %w", fs.ErrIO, typ, err)
	}
	return int(size), nil
}

// fixed has the sizes of replies that have but one.
var fixed = map[uint8]uint32{
	ninep.Rlerror: 11, ninep.Tattach + 1: 20, ninep.Tlopen + 1: 24, ninep.Tlcreate + 1: 24,
	ninep.Tsymlink + 1: 20, ninep.Tmkdir + 1: 20, ninep.Tgetattr + 1: 160, ninep.Tsetattr + 1: 7,
	ninep.Tfsync + 1: 7, ninep.Trenameat + 1: 7, ninep.Tclunk + 1: 7, ninep.Tremove + 1: 7,
	ninep.Twrite + 1: 11,
}

// least has the sizes up to the end of a reply's count, for those that have
// one.
var least = map[uint8]uint32{
	ninep.Twrite + 1: 11, ninep.Tread + 1: 11, ninep.Treaddir + 1: 11,
	ninep.Twalk + 1: 9, ninep.Treadlink + 1: 9, ninep.Rversion: 13,
}

// checkBody checks the length that a reply has inside.
func (g *guard) checkBody(a asked, typ uint8, size uint32) error {
	if want, ok := fixed[typ]; ok && size != want {
		return fmt.Errorf("%d bytes", size)
	}
	need := max(least[typ], headLen)
	if size < need {
		return fmt.Errorf("%d bytes", size)
	}
	b, err := g.r.Peek(int(need))
	if err != nil {
		return err
	}
	bad := false
	switch typ {
	case ninep.Twrite + 1:
		bad = le.Uint32(b[7:]) > a.count
	case ninep.Tread + 1, ninep.Treaddir + 1:
		n := le.Uint32(b[7:])
		bad = n != size-11 || n > a.count
	case ninep.Twalk + 1:
		n := uint32(le.Uint16(b[7:]))
		bad = n > maxWalk || size != 9+13*n
	case ninep.Treadlink + 1:
		bad = size != 9+uint32(le.Uint16(b[7:]))
	case ninep.Rversion:
		bad = size != 13+uint32(le.Uint16(b[11:]))
		g.mu.Lock()
		g.msize = min(g.msize, le.Uint32(b[7:]))
		g.mu.Unlock()
	}
	if bad {
		return fmt.Errorf("wrong count")
	}
	return nil
}
