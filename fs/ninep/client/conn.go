// Package client is a client of 9P2000.L for a server that is not to be
// trusted: hutchd's towards guests, and a guest's towards its host.
//
// Every call has a context; when it ends, the request is flushed. Every answer
// is checked: its tag, its type, and each length and name in it. What breaks
// the protocol ends the connection, as does an answer that does not come in
// time. So a connection is either good or gone, and never stuck.
//
// It is our own, because a guest can lie and hang, and github.com/hugelgupf/p9
// trusts its server: it keeps its answer channels in a pool over all
// connections, so that one guest's broken connection fails another's request;
// it sends Tclunk from the finalizer goroutine, which one hung guest would stop
// for the whole program; it panics when a read is given more than it asked for;
// and it can cancel nothing.
package client

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"hutch/fs"
	"hutch/fs/ninep/errno"
	"hutch/fs/ninep/wire"
)

const (
	maxMsize = 256<<10 + wire.WriteLen
	minMsize = 4 << 10
	maxQuick = 64                          // requests under way that have a time limit
	maxLong  = 900                         // reads and writes of streams under way; our server serves 1024
	maxCalls = maxQuick + 2*maxLong + 1000 // requests, flushes and clunks without an answer
)

var (
	// ErrLost is what ends a request whose connection is lost before the answer.
	ErrLost = fmt.Errorf("%w: connection lost", fs.ErrIO)
	// ErrLate is the cause of a context that ends with the time that the
	// server has to answer.
	ErrLate = fmt.Errorf("%w: no answer", fs.ErrTimedOut)
)

// A Pace says how long the server may take to answer.
type Pace int

const (
	// Quick is for what the server can answer at once: it has the connection's
	// limit, and when that is over, so is the connection.
	Quick Pace = iota
	// Slow is for what has the server read a program to start it, or write out
	// what it keeps in memory. It has some times the limit.
	Slow
	// Stream is for what may take as long as it likes. It is flushed when its
	// context ends.
	Stream
	// Idle is Stream, but when the context ends, what becomes of the request
	// is not waited for: the server may be too busy even to flush it.
	Idle
)

// SlowTimes is how many times the limit what is Slow has.
const SlowTimes = 6

// A Conn is one connection to a server. All methods may be called concurrently.
type Conn struct {
	c     net.Conn
	msize uint32
	plain bool // the server leaves out its trick for Linux' short reads
	limit time.Duration
	quick chan struct{} // a token for each request under way that has a time limit
	long  chan struct{} // and for each that has none
	done  chan struct{} // closed when the reader has ended
	flush sync.WaitGroup

	writeMu sync.Mutex // held for the write of one request

	mu    sync.Mutex // guards what follows
	calls map[uint16]*rpc
	tag   uint16 // the last one used
	fid   uint32 // the last one made
	fids  []uint32
	err   error         // why the connection ended
	down  chan struct{} // closed when it did
}

const rootFid = 0

// An rpc is a request under way.
type rpc struct {
	tag uint16
	typ uint8
	got chan wire.Cutter // one answer
	fid uint32           // of a clunk that nobody waits for
}

// New attaches to the tree served at the other end of c, which it takes over.
// The server has the limit to answer what is Quick. When ctx ends before New has,
// c is closed.
func New(ctx context.Context, c net.Conn, limit time.Duration) (*Conn, error) {
	n := &Conn{
		c: c, msize: maxMsize, limit: limit,
		quick: make(chan struct{}, maxQuick), long: make(chan struct{}, maxLong),
		done: make(chan struct{}), down: make(chan struct{}),
		calls: make(map[uint16]*rpc),
	}
	go n.read()
	// Nobody else asks for anything yet, so that no answer to a flush is waited for.
	stop := context.AfterFunc(ctx, func() { n.End(ErrLost) })
	err := n.agree(ctx)
	if err == nil {
		err = n.attach(ctx, rootFid, "")
	}
	if !stop() {
		err = Cause(ctx)
	}
	if err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// attach has fid be what the server calls name; "" is its root.
func (c *Conn) attach(ctx context.Context, fid uint32, name string) error {
	_, err := c.call(ctx, Quick, wire.Tattach, func(b []byte) []byte {
		b = wire.PutString(wire.PutString(wire.Put32(wire.Put32(b, fid), wire.NoFid), "hutch"), name)
		return wire.Put32(b, 0)
	})
	return err
}

// agree agrees on a version. A server that does not know ours says what it
// speaks, or that it knows none, and is asked again for what all speak.
func (c *Conn) agree(ctx context.Context) error {
	for version := wire.HutchVersion; ; version = wire.LinuxVersion {
		r, err := c.call(ctx, Quick, wire.Tversion, func(b []byte) []byte {
			return wire.PutString(wire.Put32(b, maxMsize), version)
		})
		if err != nil {
			return err
		}
		msize, spoken := r.U32(), r.Str()
		switch {
		case r.End() == nil && spoken == "unknown" && version != wire.LinuxVersion:
			continue
		case r.End() != nil || spoken != version && spoken != wire.LinuxVersion || msize < minMsize || msize > maxMsize:
			return c.liar("it speaks %q with messages of %d bytes", spoken, msize)
		}
		c.mu.Lock()
		c.msize, c.plain = msize, spoken == wire.HutchVersion
		c.mu.Unlock()
		return nil
	}
}

// Ping asks the server for the least there is. One that does not answer before
// ctx ends, with ErrLate for its cause, loses the connection.
func (c *Conn) Ping(ctx context.Context) {
	c.roundTrip(ctx, Quick, wire.Tgetattr, func(b []byte) []byte { return wire.Put64(wire.Put32(b, rootFid), 0) })
}

// liar returns the error for a server that broke the protocol, and ends the
// connection.
func (c *Conn) liar(format string, args ...any) error {
	c.End(ErrLost)
	return fmt.Errorf("%w: protocol broken: %s", fs.ErrIO, fmt.Sprintf(format, args...))
}

// End ends the connection. All later requests have the first error that it was
// ended with, which is ErrLost if it ended by itself.
func (c *Conn) End(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = why
	close(c.down)
	c.c.Close()
}

// Close ends the connection and waits for all that it does. It is idempotent.
func (c *Conn) Close() error {
	c.End(ErrLost)
	c.flush.Wait()
	<-c.done
	return nil
}

// Down is closed when the connection has ended.
func (c *Conn) Down() <-chan struct{} { return c.down }

// Ended returns the error of requests if the connection has ended.
func (c *Conn) Ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Room returns how many bytes of data one write takes.
func (c *Conn) Room() int { return int(c.size()) - wire.WriteLen }

func (c *Conn) size() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.msize
}

// call makes a request and waits for its answer.
func (c *Conn) call(ctx context.Context, pace Pace, typ uint8, fields func([]byte) []byte) (wire.Cutter, error) {
	tokens := c.long
	if pace == Quick || pace == Slow {
		tokens = c.quick
	}
	select {
	case tokens <- struct{}{}:
		defer func() { <-tokens }()
	case <-c.down:
		return wire.Cutter{}, c.Ended()
	case <-ctx.Done():
		return wire.Cutter{}, Cause(ctx)
	}
	limit := c.limit
	switch pace {
	case Slow:
		limit *= SlowTimes
		fallthrough
	case Quick:
		late, cancel := context.WithTimeoutCause(ctx, limit, ErrLate)
		defer cancel()
		ctx = late
	}
	return c.roundTrip(ctx, pace, typ, fields)
}

// Cause returns why ctx has ended.
func Cause(ctx context.Context) error {
	if context.Cause(ctx) == ErrLate {
		return ErrLate
	}
	return ctx.Err()
}

// roundTrip sends a request and waits for its answer.
func (c *Conn) roundTrip(ctx context.Context, pace Pace, typ uint8, fields func([]byte) []byte) (wire.Cutter, error) {
	q, err := c.send(typ, fields)
	if err != nil {
		return wire.Cutter{}, err
	}
	select {
	case r := <-q.got:
		return c.judge(q, r)
	case <-c.down:
		return c.answered(q)
	case <-ctx.Done():
	}
	switch {
	case context.Cause(ctx) == ErrLate:
		c.End(ErrLost)
		return wire.Cutter{}, ErrLate
	case pace == Idle:
		return wire.Cutter{}, ctx.Err()
	case typ == wire.Tread: // takes nothing: its answer can be thrown away
		c.later(func() { c.cancel(ctx, q) })
		return wire.Cutter{}, ctx.Err()
	}
	return c.cancel(ctx, q)
}

// answered returns the answer to a request if it was the last before the end.
func (c *Conn) answered(q *rpc) (wire.Cutter, error) {
	select {
	case r := <-q.got:
		return c.judge(q, r)
	default:
		return wire.Cutter{}, c.Ended()
	}
}

// cancel flushes a request. What the server answered before is its answer.
func (c *Conn) cancel(ctx context.Context, q *rpc) (wire.Cutter, error) {
	f, err := c.send(wire.Tflush, func(b []byte) []byte { return wire.Put16(b, q.tag) })
	if err != nil {
		return wire.Cutter{}, ctx.Err()
	}
	limit := time.NewTimer(c.limit)
	defer limit.Stop()
	select {
	case r := <-f.got:
		if _, err := c.judge(f, r); err != nil {
			c.liar("flush refused: %v", err)
		}
	case <-c.down:
		return wire.Cutter{}, ctx.Err()
	case <-limit.C:
		c.End(ErrLost)
		return wire.Cutter{}, ctx.Err()
	}
	select {
	case r := <-q.got: // it came before the answer to the flush
		r, err := c.judge(q, r)
		if errors.Is(err, fs.ErrInterrupted) {
			err = ctx.Err()
		}
		return r, err
	default:
		c.forget(q)
		return wire.Cutter{}, ctx.Err()
	}
}

// later does f beside the connection, which waits for it, unless that has ended.
func (c *Conn) later(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.flush.Go(f)
	}
}

// judge turns an answer that is an error into one.
func (c *Conn) judge(q *rpc, r wire.Cutter) (wire.Cutter, error) {
	typ := r.U8()
	r.U16()
	switch {
	case typ == q.typ+1:
		return r, nil
	case typ != wire.Rlerror:
		return wire.Cutter{}, c.liar("answer %d to message %d", typ, q.typ)
	}
	number := r.U32()
	if r.End() != nil {
		return wire.Cutter{}, c.liar("malformed error")
	}
	return wire.Cutter{}, fs.Kind(errno.Local(number))
}

// send sends a request. Its answer will come on got.
func (c *Conn) send(typ uint8, fields func([]byte) []byte) (*rpc, error) {
	q := &rpc{typ: typ, got: make(chan wire.Cutter, 1)}
	if err := c.enter(q); err != nil {
		return nil, err
	}
	return q, c.write(q, fields)
}

func (c *Conn) write(q *rpc, fields func([]byte) []byte) error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	b := wire.Seal(fields((*buf)[:wire.HeadLen]), q.typ, q.tag)
	if cap(b) <= maxMsize {
		*buf = b
	}
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	c.c.SetWriteDeadline(time.Now().Add(c.limit)) // a server that does not read is no better than one that does not answer
	if _, err := c.c.Write(b); err != nil {
		c.End(ErrLost)
		if t := net.Error(nil); errors.As(err, &t) && t.Timeout() {
			return ErrLate
		}
		return c.Ended()
	}
	return nil
}

var buffers = sync.Pool{New: func() any { b := make([]byte, wire.HeadLen, 512); return &b }}

// enter gives a request a tag.
func (c *Conn) enter(q *rpc) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	q.tag = wire.NoTag
	if q.typ != wire.Tversion {
		q.tag = c.freeTag()
	}
	c.calls[q.tag] = q
	if len(c.calls) > maxCalls {
		c.flush.Go(func() { c.liar("%d requests without an answer", maxCalls) })
	}
	return nil
}

// freeTag returns a tag not in use. It is called with mu held.
func (c *Conn) freeTag() uint16 {
	for {
		if c.tag++; c.tag != wire.NoTag && c.calls[c.tag] == nil {
			return c.tag
		}
	}
}

func (c *Conn) forget(q *rpc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[q.tag] == q {
		delete(c.calls, q.tag)
	}
}

// read hands the server's answers to those who wait for them.
func (c *Conn) read() {
	defer close(c.done)
	defer c.End(ErrLost)
	r := bufio.NewReaderSize(c.c, 64<<10)
	for {
		b, ok := readMessage(r, c.size())
		if !ok {
			return
		}
		tag := binary.LittleEndian.Uint16(b[1:])
		c.mu.Lock()
		q := c.calls[tag]
		delete(c.calls, tag)
		if q != nil && q.fid != 0 && b[0] == wire.Tclunk+1 { // a fid that was refused is not ours to use
			c.fids = append(c.fids, q.fid)
		}
		c.mu.Unlock()
		if q == nil { // it answers what was not asked
			return
		}
		q.got <- wire.Cutter{B: b}
	}
}

// readMessage reads a message, from its type on.
func readMessage(r *bufio.Reader, limit uint32) ([]byte, bool) {
	head, err := r.Peek(4)
	if err != nil {
		return nil, false
	}
	size := binary.LittleEndian.Uint32(head)
	if size < wire.HeadLen || size > limit {
		return nil, false
	}
	r.Discard(4)
	b := make([]byte, size-4)
	_, err = io.ReadFull(r, b)
	return b, err == nil
}

// newFid returns a fid that is not in use.
func (c *Conn) newFid() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := len(c.fids); k > 0 {
		f := c.fids[k-1]
		c.fids = c.fids[:k-1]
		return f
	}
	c.fid++
	return c.fid
}

// unused takes a fid back that the server has not got.
func (c *Conn) unused(fid uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fids = append(c.fids, fid)
}
