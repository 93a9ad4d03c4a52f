package guest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"hutch/fs"
	"hutch/fs/ninep/errno"
)

// answerLimit is how long a guest may take to answer what does not block: one
// without KVM, on a busy host, has been seen to take more than five seconds.
const answerLimit = 15 * time.Second

const (
	maxMsize = 256<<10 + writeLen
	minMsize = 4 << 10
	maxQuick = 64                          // requests under way that have a time limit
	maxLong  = 900                         // reads and writes of streams under way; the agent serves 1024
	maxCalls = maxQuick + 2*maxLong + 1000 // requests, flushes and clunks without an answer
)

// errLost is what ends a request whose connection is lost before the answer.
var errLost = fmt.Errorf("%w: connection to the guest lost", fs.ErrIO)

// A conn is one connection to a guest's agent: a client of 9P2000.L for a
// server that is not to be trusted. Whatever breaks the protocol, and an
// answer that does not come in time, ends the connection; nothing else does.
//
// Every request can be cancelled: it is flushed, and what the guest answered
// before the flush still counts.
type conn struct {
	c     net.Conn
	msize uint32
	limit time.Duration // answerLimit
	quick chan struct{} // a token for each request under way that has a time limit
	long  chan struct{} // and for each that has none
	done  chan struct{} // the reader has ended
	flush sync.WaitGroup

	writing sync.Mutex // held for the write of one request

	mu    sync.Mutex // guards what follows
	calls map[uint16]*rpc
	tag   uint16 // the last one used
	fid   uint32 // the last one made
	fids  []uint32
	err   error         // why the connection ended
	down  chan struct{} // closed when it did
	exec  uint32        // fid of exec, 0 before it is walked to
}

const rootFid = 0

// An rpc is a request under way.
type rpc struct {
	tag uint16
	typ uint8
	got chan reply // one answer
	fid uint32     // of a clunk that nobody waits for
}

// dial begins to speak with the guest on c.
func dial(ctx context.Context, c net.Conn, limit time.Duration) (*conn, error) {
	n := &conn{
		c: c, msize: maxMsize, limit: limit,
		quick: make(chan struct{}, maxQuick), long: make(chan struct{}, maxLong),
		done: make(chan struct{}), down: make(chan struct{}),
		calls: make(map[uint16]*rpc),
	}
	go n.read()
	if err := n.begin(ctx); err != nil {
		n.end(err)
		<-n.done
		return nil, err
	}
	return n, nil
}

// begin agrees on the protocol and attaches to the tree.
func (n *conn) begin(ctx context.Context) error {
	r, err := n.call(ctx, tversion, func(b []byte) []byte {
		return putString(put32(b, maxMsize), dialect)
	})
	if err != nil {
		return err
	}
	msize, version := r.u32(), r.str()
	if r.end() != nil || version != dialect || msize < minMsize || msize > maxMsize {
		return n.liar("it speaks %q with messages of %d bytes", version, msize)
	}
	n.mu.Lock()
	n.msize = msize
	n.mu.Unlock()
	_, err = n.call(ctx, tattach, func(b []byte) []byte {
		b = putString(putString(put32(put32(b, rootFid), noFid), "hutch"), "")
		return put32(b, 0)
	})
	return err
}

// ping asks the guest for the least there is. One that does not answer before
// ctx ends, with errLate for its cause, loses the connection.
func (n *conn) ping(ctx context.Context) {
	n.roundTrip(ctx, tgetattr, func(b []byte) []byte { return put64(put32(b, rootFid), 0) })
}

// liar returns the error for a guest that broke the protocol, and ends the
// connection.
func (n *conn) liar(format string, args ...any) error {
	err := fmt.Errorf("%w: guest broke the protocol: %s", fs.ErrIO, fmt.Sprintf(format, args...))
	n.end(err)
	return err
}

// end ends the connection, for the first reason it is given.
func (n *conn) end(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return
	}
	n.err = err
	close(n.down)
	n.c.Close()
}

// ended returns why the connection is of no use any more: nil, errLost or
// errGone. What the guest did wrong is told to the one who saw it.
func (n *conn) ended() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lost()
}

// lost is ended, called with mu held.
func (n *conn) lost() error {
	if n.err == nil || n.err == errGone {
		return n.err
	}
	return errLost
}

// call makes a request that the guest has to answer in time.
func (n *conn) call(ctx context.Context, typ uint8, fields func([]byte) []byte) (reply, error) {
	return n.within(ctx, n.limit, typ, fields)
}

// slow is how many times as long a request may take that has the guest read a
// program to start it, or write out what it keeps in memory.
const slow = 6

// callSlow is call for such a request.
func (n *conn) callSlow(ctx context.Context, typ uint8, fields func([]byte) []byte) (reply, error) {
	return n.within(ctx, slow*n.limit, typ, fields)
}

func (n *conn) within(ctx context.Context, limit time.Duration, typ uint8, fields func([]byte) []byte) (reply, error) {
	if !noticed(ctx) {
		return n.block(ctx, typ, fields)
	}
	select {
	case n.quick <- struct{}{}:
		defer func() { <-n.quick }()
	case <-n.down:
		return reply{}, n.ended()
	case <-ctx.Done():
		return reply{}, over(ctx)
	}
	late, cancel := context.WithTimeoutCause(ctx, limit, errLate)
	defer cancel()
	return n.roundTrip(late, typ, fields)
}

// errLate is the cause of a context that ended with the guest's time.
var errLate = fmt.Errorf("%w: guest did not answer", fs.ErrTimedOut)

// over returns why ctx has ended.
func over(ctx context.Context) error {
	if context.Cause(ctx) == errLate {
		return errLate
	}
	return ctx.Err()
}

// block makes a request whose answer may take as long as it likes.
func (n *conn) block(ctx context.Context, typ uint8, fields func([]byte) []byte) (reply, error) {
	select {
	case n.long <- struct{}{}:
		defer func() { <-n.long }()
	case <-n.down:
		return reply{}, n.ended()
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
	return n.roundTrip(ctx, typ, fields)
}

// roundTrip sends a request and waits for its answer.
func (n *conn) roundTrip(ctx context.Context, typ uint8, fields func([]byte) []byte) (reply, error) {
	c, err := n.send(typ, fields)
	if err != nil {
		return reply{}, err
	}
	select {
	case r := <-c.got:
		return n.judge(c, r)
	case <-n.down:
		return n.answered(c)
	case <-ctx.Done():
	}
	switch {
	case context.Cause(ctx) == errLate:
		n.end(errLate)
		return reply{}, errLate
	case !noticed(ctx):
		return reply{}, ctx.Err()
	case typ == tread: // takes nothing: its answer can be thrown away
		n.later(func() { n.cancel(ctx, c) })
		return reply{}, ctx.Err()
	}
	return n.cancel(ctx, c)
}

// answered returns the answer to a request if it was the last before the end.
func (n *conn) answered(c *rpc) (reply, error) {
	select {
	case r := <-c.got:
		return n.judge(c, r)
	default:
		return reply{}, n.ended()
	}
}

// cancel flushes a request. What the guest answered before is its answer.
func (n *conn) cancel(ctx context.Context, c *rpc) (reply, error) {
	f, err := n.send(tflush, func(b []byte) []byte { return put16(b, c.tag) })
	if err != nil {
		return reply{}, ctx.Err()
	}
	limit := time.NewTimer(n.limit)
	defer limit.Stop()
	select {
	case r := <-f.got:
		if _, err := n.judge(f, r); err != nil {
			n.liar("flush refused: %v", err)
		}
	case <-n.down:
		return reply{}, ctx.Err()
	case <-limit.C:
		n.end(errLate)
		return reply{}, ctx.Err()
	}
	select {
	case r := <-c.got: // it came before the answer to the flush
		r, err := n.judge(c, r)
		if errors.Is(err, fs.ErrInterrupted) {
			err = ctx.Err()
		}
		return r, err
	default:
		n.forget(c)
		return reply{}, ctx.Err()
	}
}

// later does f beside the connection, which waits for it, unless that has ended.
func (n *conn) later(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil {
		n.flush.Go(f)
	}
}

// judge turns an answer that is an error into one.
func (n *conn) judge(c *rpc, r reply) (reply, error) {
	typ := r.u8()
	r.u16()
	switch {
	case typ == c.typ+1:
		return r, nil
	case typ != rlerror:
		return reply{}, n.liar("answer %d to message %d", typ, c.typ)
	}
	number := r.u32()
	if r.end() != nil {
		return reply{}, n.liar("malformed error")
	}
	return reply{}, kindOf(errno.Local(number))
}

// send sends a request. Its answer will come on got.
func (n *conn) send(typ uint8, fields func([]byte) []byte) (*rpc, error) {
	c := &rpc{typ: typ, got: make(chan reply, 1)}
	if err := n.enter(c); err != nil {
		return nil, err
	}
	return c, n.write(c, fields)
}

func (n *conn) write(c *rpc, fields func([]byte) []byte) error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	b := fields(append((*buf)[:0], 0, 0, 0, 0, c.typ, byte(c.tag), byte(c.tag>>8)))
	le.PutUint32(b, uint32(len(b)))
	if cap(b) <= maxMsize {
		*buf = b
	}
	n.writing.Lock()
	defer n.writing.Unlock()
	n.c.SetWriteDeadline(time.Now().Add(n.limit)) // a guest that does not read is no better than one that does not answer
	if _, err := n.c.Write(b); err != nil {
		if !isTimeout(err) {
			n.end(errLost)
			return n.ended()
		}
		n.end(errLate)
		return errLate
	}
	return nil
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}

// enter gives a request a tag.
func (n *conn) enter(c *rpc) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.lost(); err != nil {
		return err
	}
	c.tag = noTag
	if c.typ != tversion {
		c.tag = n.freeTag()
	}
	n.calls[c.tag] = c
	if len(n.calls) > maxCalls {
		go n.liar("%d requests without an answer", maxCalls)
	}
	return nil
}

// freeTag returns a tag not in use. It is called with mu held.
func (n *conn) freeTag() uint16 {
	for {
		if n.tag++; n.tag != noTag && n.calls[n.tag] == nil {
			return n.tag
		}
	}
}

func (n *conn) forget(c *rpc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.calls[c.tag] == c {
		delete(n.calls, c.tag)
	}
}

// read hands the guest's answers to those who wait for them.
func (n *conn) read() {
	defer close(n.done)
	r := bufio.NewReaderSize(n.c, 64<<10)
	for {
		b, err := readMessage(r, n.size())
		if err != nil {
			n.end(err)
			return
		}
		tag := le.Uint16(b[1:])
		n.mu.Lock()
		c := n.calls[tag]
		delete(n.calls, tag)
		if c != nil && c.fid != 0 && b[0] == tclunk+1 { // a fid that was refused is not ours to use
			n.fids = append(n.fids, c.fid)
		}
		n.mu.Unlock()
		if c == nil {
			n.liar("answer to a request %d that was not made", tag)
			return
		}
		c.got <- reply{b: b}
	}
}

func (n *conn) size() uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.msize
}

// readMessage reads a message, from its type on.
func readMessage(r *bufio.Reader, limit uint32) ([]byte, error) {
	head, err := r.Peek(4)
	if err != nil {
		return nil, errLost
	}
	size := le.Uint32(head)
	if size < headLen || size > limit {
		return nil, fmt.Errorf("%w: guest broke the protocol: message of %d bytes", fs.ErrIO, size)
	}
	r.Discard(4)
	b := make([]byte, size-4)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, errLost
	}
	return b, nil
}

// newFid returns a fid that is not in use.
func (n *conn) newFid() uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if k := len(n.fids); k > 0 {
		f := n.fids[k-1]
		n.fids = n.fids[:k-1]
		return f
	}
	n.fid++
	return n.fid
}

// clunk gives a fid back. Nobody waits for the answer, after which the fid
// can be used again.
func (n *conn) clunk(fid uint32) {
	c := &rpc{typ: tclunk, got: make(chan reply, 1), fid: fid}
	if n.enter(c) == nil {
		n.write(c, func(b []byte) []byte { return put32(b, fid) })
	}
}
