package client

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/hugelgupf/p9/p9"

	"hutch/fs"
)

// linuxFlags returns the flags of Tlopen, which are Linux' on every system.
func linuxFlags(flags int) p9.OpenFlags {
	f := p9.OpenFlags(flags & (os.O_WRONLY | os.O_RDWR))
	for _, bit := range [...]struct {
		from int
		to   p9.OpenFlags
	}{
		{os.O_CREATE, 0o100}, {os.O_EXCL, 0o200}, {os.O_TRUNC, 0o1000},
		{os.O_APPEND, 0o2000}, {syscall.O_NONBLOCK, 0o4000},
	} {
		if flags&bit.from != 0 {
			f |= bit.to
		}
	}
	return f
}

// A File is an open file. All methods may be called concurrently. Read and
// Write go through the file from its start, each with an offset of its own,
// like the two directions of a conversation. A read returns what one message
// brings, as soon as there is something.
type File struct {
	c    *Conn
	f    p9.File
	fid  uint32
	path string

	mu      sync.Mutex // guards all below
	started uint64     // requests on the fid
	closed  bool
	tail    span // what a short read left of its buffer

	rmu  sync.Mutex // held during Read; guards roff
	roff int64
	wmu  sync.Mutex // held during Write; guards woff
	woff int64
}

type span struct {
	off int64
	n   int
}

func (c *Conn) newFile(f p9.File, path string) *File {
	file := &File{c: c, f: f, fid: fidOf(f), path: path}
	c.g.watch(file.fid)
	return file
}

// begin counts a request that is about to be sent, so that Close can wait for
// that: sent after the Tclunk it would be one on a fid that may be another's.
func (f *File) begin() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return os.ErrClosed
	}
	f.started++
	return nil
}

// do makes a request.
func (f *File) do(op string, call func() error) error {
	err := f.begin()
	if err == nil {
		err = call()
	}
	if err != nil && err != io.EOF && f.isClosed() {
		err = os.ErrClosed
	}
	return errorOf(op, f.path, err)
}

func (f *File) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// ReadAt reads at most len(p) bytes at off, by one message. It returns what
// there is, which may be less; io.EOF at the end; and fs.ErrClosed if Close
// ended it.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	p = p[:min(len(p), f.c.iosize)]
	again := f.continues(off, len(p))
	if again && len(p) > 1 {
		p = p[:len(p)-1]
	}
	n, err := f.readAt(p, off)
	if again && n == 0 && err == io.EOF && len(p) == 1 {
		n, err = f.readAt(p, off)
	}
	f.mu.Lock()
	f.tail = span{off + int64(n), len(p) - n}
	f.mu.Unlock()
	return n, err
}

// continues reports whether a read asks for just what the last one, a short
// one, did not fill. For the sake of Linux, servers answer that with nothing,
// once, when the file is a stream; so ReadAt asks for something else.
func (f *File) continues(off int64, n int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tail == span{off, n}
}

func (f *File) readAt(p []byte, off int64) (n int, err error) {
	err = f.do("read", func() (err error) {
		n, err = f.f.ReadAt(p, off)
		return err
	})
	return n, err
}

// WriteAt writes p at off, by as many messages as it takes.
func (f *File) WriteAt(p []byte, off int64) (done int, err error) {
	for {
		part := p[done:min(len(p), done+f.c.iosize)]
		var n int
		err = f.do("write", func() (err error) {
			n, err = f.f.WriteAt(part, off+int64(done))
			return err
		})
		done += n
		switch {
		case err != nil || done == len(p):
			return done, err
		case n == 0:
			return done, io.ErrShortWrite
		}
	}
}

// Read reads on from where the last Read ended.
func (f *File) Read(p []byte) (int, error) {
	f.rmu.Lock()
	defer f.rmu.Unlock()
	n, err := f.ReadAt(p, f.roff)
	f.roff += int64(n)
	return n, err
}

// Write writes on from where the last Write ended.
func (f *File) Write(p []byte) (int, error) {
	f.wmu.Lock()
	defer f.wmu.Unlock()
	n, err := f.WriteAt(p, f.woff)
	f.woff += int64(n)
	return n, err
}

// Stat describes the file.
func (f *File) Stat() (st fs.Stat, err error) {
	names := split(f.path)
	name := "/"
	if len(names) > 0 {
		name = names[len(names)-1]
	}
	err = f.do("stat", func() (err error) {
		st, err = statOf(f.f, name)
		return err
	})
	return st, err
}

// Sync makes what was written durable.
func (f *File) Sync() error {
	return f.do("sync", func() error { return f.f.FSync() })
}

// Close ends reads and writes under way, which return fs.ErrClosed, and
// closes the file. Its error is that of finishing what was written.
func (f *File) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return errorOf("close", f.path, os.ErrClosed)
	}
	f.closed = true
	started := f.started
	f.mu.Unlock()
	f.c.g.awaitSent(f.fid, started)
	err := f.f.Close()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return errorOf("close", f.path, err)
}
