package image

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"hutch/fs"
)

// decompress returns what r reads, unpacked if it is packed by gzip or zstd.
func decompress(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	head, err := b.Peek(6)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return gzip.NewReader(b)
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}), len(head) > 3 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:4], []byte{0x2a, 0x4d, 0x18}):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	case bytes.HasPrefix(head, []byte("BZh")), bytes.HasPrefix(head, []byte("\xfd7zXZ")):
		return nil, fmt.Errorf("%w: compressed by bzip2 or xz: only gzip and zstd are known", fs.ErrUnsupported)
	}
	return io.NopCloser(b), nil
}

// A counter counts what is read, and ends with its context.
type counter struct {
	ctx context.Context
	r   io.Reader
	n   *atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// A bounded reader fails when more than left bytes were read.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("%w: unpacks to more than an image may have", fs.ErrInvalid)
	}
	return n, err
}

// stallLimit is how long a registry may send nothing, unless the store says otherwise.
const stallLimit = time.Minute

// A patient reader gives up when what it reads does not come for too long, or
// its context ends.
type patient struct {
	in     io.ReadCloser
	limit  time.Duration
	late   *time.Timer // runs while something is waited for
	forget func() bool // what was to be done at the context's end
}

// newPatient returns what open opens.
func newPatient(ctx context.Context, limit time.Duration, giveUp context.CancelCauseFunc, open func() (io.ReadCloser, error)) (io.ReadCloser, error) {
	p := &patient{limit: limit, late: lateAfter(limit, giveUp)}
	p.forget = context.AfterFunc(ctx, func() { giveUp(context.Cause(ctx)) })
	in, err := open()
	p.late.Stop()
	if err != nil {
		p.forget()
		return nil, err
	}
	p.in = in
	return p, nil
}

// lateAfter gives up after limit, unless the timer it returns is stopped.
func lateAfter(limit time.Duration, giveUp context.CancelCauseFunc) *time.Timer {
	return time.AfterFunc(limit, func() {
		giveUp(fmt.Errorf("%w: the registry sends nothing for %s", fs.ErrTimedOut, limit))
	})
}

func (p *patient) Read(b []byte) (int, error) {
	p.late.Reset(p.limit)
	defer p.late.Stop()
	return p.in.Read(b)
}

func (p *patient) Close() error {
	p.forget()
	return p.in.Close()
}
