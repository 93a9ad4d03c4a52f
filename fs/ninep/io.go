package ninep

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"hutch/fs"
	"hutch/fs/ninep/wire"
)

// A stream remembers where the last read of a stream left off. Linux repeats
// a read until its buffer is full or it gets nothing, and would keep what it
// has from the program until then; so the exact continuation of a short read
// gets nothing, once. Our own client asks to be spared that, by its version.
type stream struct {
	mu    sync.Mutex // guards all below
	off   uint64
	count uint32 // 0: nothing to remember
}

// continued reports whether a read continues the last one.
func (t *stream) continued(off uint64, count uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	same := t.count != 0 && off == t.off && count == t.count
	t.count = 0
	return same
}

func (t *stream) shortened(off uint64, count uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.off, t.count = off, count
}

// read serves Tread.
func (s *session) read(o *op) error {
	open := o.open
	switch {
	case open == nil || !open.read:
		return fmt.Errorf("%w: fid %d not open for reading", errBadFd, o.fid)
	case open.handle == nil && s.dialect == classic:
		return s.readStats(o)
	case open.handle == nil:
		return fs.ErrIsDir
	}
	count := min(o.count, s.msize-wire.ReadLen)
	streams := open.streams()
	if streams {
		count = min(count, streamBuffer)
	}
	if o.offset > math.MaxInt64-uint64(count) {
		return fmt.Errorf("%w: offset %d", fs.ErrInvalid, o.offset)
	}
	if streams && open.stream.continued(o.offset, o.count) {
		o.out = wire.Put32(o.out, 0)
		return nil
	}
	o.out = o.reply(4 + int(count)) // an error goes there too
	p := o.buf.b[wire.ReadLen : wire.ReadLen+count]
	n, err := open.handle.ReadAt(o.ctx, p, int64(o.offset))
	s.srv.settle()
	if n < 0 || n > len(p) {
		return fmt.Errorf("%w: read of %d bytes gave %d", fs.ErrIO, len(p), n)
	}
	if err != nil && n == 0 && !errors.Is(err, io.EOF) {
		return err
	}
	if streams && !s.plain && n > 0 && n < int(o.count) {
		open.stream.shortened(o.offset+uint64(n), o.count-uint32(n))
	}
	o.out = o.buf.b[:wire.ReadLen+n]
	le.PutUint32(o.out[wire.HeadLen:], uint32(n))
	s.srv.Counters.Read.Add(int64(n))
	return nil
}

func (s *Server) settle() {
	if s.Settle != nil {
		s.Settle()
	}
}

// write serves Twrite.
func (s *session) write(o *op) error {
	open := o.open
	if open == nil || open.handle == nil || !open.write {
		return fmt.Errorf("%w: fid %d not open for writing", errBadFd, o.fid)
	}
	if o.offset > math.MaxInt64-uint64(len(o.data)) {
		return fmt.Errorf("%w: offset %d", fs.ErrInvalid, o.offset)
	}
	n, err := open.handle.WriteAt(o.ctx, o.data, int64(o.offset))
	s.srv.settle()
	if n < 0 || n > len(o.data) {
		return fmt.Errorf("%w: write of %d bytes took %d", fs.ErrIO, len(o.data), n)
	}
	if err != nil && (n == 0 || n == len(o.data)) {
		return err // after a part, the next write tells
	}
	o.out = wire.Put32(o.out, uint32(n))
	s.srv.Counters.Written.Add(int64(n))
	return nil
}

// sync serves Tfsync, and changes of nothing: what was written to an open
// file becomes durable, where that means something.
func (s *session) sync(o *op) error {
	if o.open == nil || o.open.handle == nil {
		return nil
	}
	return o.open.handle.Sync(o.ctx)
}
