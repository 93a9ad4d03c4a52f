package fuse

import (
	"context"
	"fmt"
	"syscall"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"hutch/fs"
)

const (
	maxRequest = 128 << 10 // the kernel cuts reads and writes into pieces of this
	page       = 4096
)

// A file is an open made-up file.
type file struct {
	fs.Handle
	s      *Server
	stream bool // reads can block at the end

	// Of a stream that is open for reading and writing both: the kernel has no
	// place in it, which a blocked read would hold against writes, and which
	// writes would move for reads.
	turn chan struct{} // has room for the one who reads, and guards at; nil: the kernel has
	at   int64         // where the next read begins
}

// file returns what serves h, and how the kernel is to treat it: pages of a
// stored file can be kept.
func (s *Server) file(h fs.Handle, flags uint32, stored bool) (*file, uint32, error) {
	f := &file{Handle: h, s: s, stream: h.Stream()}
	// Streams too can be sought in: head and the shells' read take more
	// than they need and seek back to what they leave.
	how := uint32(gofuse.FOPEN_DIRECT_IO)
	switch {
	case stored && !f.stream && s.opt.Keep > 0:
		how = gofuse.FOPEN_KEEP_CACHE
	case stored && !f.stream:
		how = 0
	}
	if f.stream && flags&syscall.O_ACCMODE == syscall.O_RDWR {
		how |= gofuse.FOPEN_STREAM
		f.turn = make(chan struct{}, 1)
	}
	if flags&syscall.O_ACCMODE == syscall.O_RDONLY {
		how |= gofuse.FOPEN_NOFLUSH
	}
	if !s.keep(f) {
		h.Close()
		return nil, 0, fmt.Errorf("%w: the tree is closing", fs.ErrInterrupted)
	}
	return f, how, nil
}

func (f *file) Read(ctx context.Context, dest []byte, off int64) (gofuse.ReadResult, syscall.Errno) {
	var n int
	errno := f.s.block(ctx, func(ctx context.Context) (err error) {
		f.s.opt.Counters.Waiting.Add(1)
		defer f.s.opt.Counters.Waiting.Add(-1)
		n, err = f.read(ctx, f.limit(dest), off)
		if n > 0 {
			return nil // an error will come again; what was read would not
		}
		return err
	})
	f.s.opt.Counters.BytesRead.Add(int64(n))
	f.s.Settle() // it may tell of what was done before
	return gofuse.ReadResultData(dest[:n]), errno
}

// read reads at off, or where the last read of a stream ended.
func (f *file) read(ctx context.Context, p []byte, off int64) (int, error) {
	if f.turn == nil {
		return f.ReadAt(ctx, p, off)
	}
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, fs.ErrInterrupted
	}
	defer func() { <-f.turn }()
	n, err := f.ReadAt(ctx, p, f.at)
	f.at += int64(n)
	return n, err
}

// limit keeps a stream from filling dest where that is one piece of a longer
// read: the kernel would go on to the next piece, which may block with the
// first undelivered.
func (f *file) limit(dest []byte) []byte {
	if f.stream && len(dest) >= maxRequest {
		return dest[:len(dest)-page]
	}
	return dest
}

func (f *file) Write(ctx context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	var n int
	errno := f.s.do(ctx, func(ctx context.Context) (err error) {
		f.s.opt.Counters.Waiting.Add(1)
		defer f.s.opt.Counters.Waiting.Add(-1)
		n, err = f.WriteAt(ctx, data, off)
		if n > 0 && n < len(data) {
			return nil // the client comes back with the rest, and is told then
		}
		return err
	})
	f.s.opt.Counters.Written.Add(int64(n))
	f.s.Settle()
	return uint32(n), errno
}

// stat describes a file that is not where it was when it was opened, if the
// handle can; if not it returns err.
func (f *file) stat(ctx context.Context, out *gofuse.AttrOut, err error) error {
	st, herr := f.Handle.Stat(ctx)
	if herr != nil {
		return err
	}
	setAttr(&out.Attr, st)
	return nil
}

func (f *file) Flush(ctx context.Context) syscall.Errno {
	return f.s.do(ctx, f.Handle.Flush)
}

func (f *file) Fsync(ctx context.Context, _ uint32) syscall.Errno {
	return f.s.do(ctx, f.Handle.Sync)
}

func (f *file) Release(context.Context) syscall.Errno {
	f.s.drop(f)
	return 0
}

var (
	_ gofs.FileReader   = (*file)(nil)
	_ gofs.FileWriter   = (*file)(nil)
	_ gofs.FileFlusher  = (*file)(nil)
	_ gofs.FileFsyncer  = (*file)(nil)
	_ gofs.FileReleaser = (*file)(nil)
)
