package tree

import (
	"context"
	"io"
	"sync"
)

// A pipe carries a stream from who makes it to who reads a file: no more is made
// ahead than a few blocks.
type pipe struct {
	blocks chan []byte // closed when there are no more
	rest   []byte      // of a block, the reader's
	err    error       // why there are no more; io.EOF: it is the end
}

func newPipe() *pipe { return &pipe{blocks: make(chan []byte, 2)} }

// end has the reader come to err when it has read what was written.
func (p *pipe) end(err error) {
	if err == nil {
		err = io.EOF
	}
	p.err = err
	close(p.blocks)
}

// writer returns the end that is written to, until ctx is done.
func (p *pipe) writer(ctx context.Context) io.Writer { return pipeWriter{p, ctx} }

type pipeWriter struct {
	p   *pipe
	ctx context.Context
}

func (w pipeWriter) Write(b []byte) (int, error) {
	select {
	case w.p.blocks <- append([]byte(nil), b...):
		return len(b), nil
	case <-w.ctx.Done():
		return 0, context.Cause(w.ctx)
	}
}

// read waits for something, and returns what there is. One reader reads at a time.
func (p *pipe) read(ctx context.Context, b []byte) (int, error) {
	n := 0
	for n < len(b) {
		if len(p.rest) == 0 && !p.next(ctx, n == 0) {
			break
		}
		k := copy(b[n:], p.rest)
		n, p.rest = n+k, p.rest[k:]
	}
	switch {
	case n > 0 || len(b) == 0:
		return n, nil
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	}
	return 0, p.err
}

// next takes a block, if there is one, or waits for it.
func (p *pipe) next(ctx context.Context, wait bool) (ok bool) {
	if !wait {
		select {
		case p.rest, ok = <-p.blocks:
		default:
		}
		return ok
	}
	select {
	case p.rest, ok = <-p.blocks:
	case <-ctx.Done():
	}
	return ok
}

// A feed carries what is written to a file to who reads it as a stream. A write
// returns when it was read and all was done that it was good for: so its error is
// that of what was written.
type feed struct {
	hungry chan struct{} // has a token while the reader has nothing left to do
	blocks chan []byte
	rest   []byte        // of a block, the reader's
	eof    chan struct{} // closed when no more is written
	close  func()        // closes that
	over   chan struct{} // closed when the reader has ended
	err    error         // of that
}

func newFeed() *feed {
	f := &feed{hungry: make(chan struct{}, 1), blocks: make(chan []byte), eof: make(chan struct{}), over: make(chan struct{})}
	f.close = sync.OnceFunc(func() { close(f.eof) })
	return f
}

// end is the reader's last word.
func (f *feed) end(err error) {
	f.err = err
	close(f.over)
}

// reader returns the end that is read, until ctx is done.
func (f *feed) reader(ctx context.Context) io.Reader { return feedReader{f, ctx} }

type feedReader struct {
	f   *feed
	ctx context.Context
}

func (r feedReader) Read(b []byte) (int, error) {
	f := r.f
	if len(f.rest) == 0 {
		f.tellHungry()
		select {
		case f.rest = <-f.blocks:
		case <-f.eof:
			return 0, io.EOF
		case <-r.ctx.Done():
			return 0, context.Cause(r.ctx)
		}
	}
	n := copy(b, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// tellHungry puts the token there, unless it is.
func (f *feed) tellHungry() {
	select {
	case f.hungry <- struct{}{}:
	default:
	}
}

// settle waits until the reader has nothing left to do. It says whether it has
// ended.
func (f *feed) settle(ctx context.Context) (over bool, err error) {
	select {
	case <-f.over:
		return true, nil
	case <-f.hungry:
		f.tellHungry()
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// give hands b to the reader, who is hungry.
func (f *feed) give(b []byte) {
	<-f.hungry
	select {
	case f.blocks <- b:
	case <-f.over:
	}
}
