package client

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"hutch/fs"
	"hutch/fs/ninep/wire"
)

// A Fid is a file of the server, which may be open. Its methods are the
// requests of 9P2000.L. It ends with Clunk or Close, which are called once.
type Fid struct {
	c    *Conn
	n    uint32
	name string // the last it was walked to

	Qid wire.Qid // of a fid that is open
}

// Walk returns a new fid for the file at path.
func (c *Conn) Walk(ctx context.Context, path []string) (*Fid, error) {
	return c.walk(ctx, Quick, path)
}

func (c *Conn) walk(ctx context.Context, pace Pace, path []string) (*Fid, error) {
	f := &Fid{c: c, n: c.newFid(), name: "/"}
	if len(path) > 0 {
		f.name = path[len(path)-1]
	}
	from := uint32(rootFid)
	for {
		part := path[:min(len(path), wire.MaxWalk)]
		path = path[len(part):]
		err := c.step(ctx, pace, from, f.n, part)
		switch {
		case err != nil && from == f.n:
			f.Clunk()
			return nil, err
		case err != nil && pace != Idle: // else the server may make it yet
			c.unused(f.n)
			fallthrough
		case err != nil:
			return nil, err
		case len(path) == 0:
			return f, nil
		}
		from = f.n
	}
}

// step walks from one fid to a new one, or on with the same.
func (c *Conn) step(ctx context.Context, pace Pace, from, to uint32, names []string) error {
	r, err := c.call(ctx, pace, wire.Twalk, func(b []byte) []byte {
		return wire.PutStrings(wire.Put32(wire.Put32(b, from), to), names)
	})
	if err != nil {
		return err
	}
	got := int(r.U16())
	if len(r.B) != got*wire.QidLen || got > len(names) {
		return c.liar("a walk of %d names gave %d", len(names), got)
	}
	if got < len(names) {
		return fs.ErrNotExist
	}
	return nil
}

// At does f with a fid of the file at path, while f lasts.
func (c *Conn) At(ctx context.Context, path []string, f func(*Fid) error) error {
	fid, err := c.Walk(ctx, path)
	if err != nil {
		return err
	}
	defer fid.Clunk()
	return f(fid)
}

// Open returns an open fid of the file at path. Flags are those of fs.Node.
func (c *Conn) Open(ctx context.Context, path []string, flags int) (*Fid, error) {
	return c.open(ctx, Quick, path, wire.LinuxFlags(flags))
}

func (c *Conn) open(ctx context.Context, pace Pace, path []string, flags uint32) (*Fid, error) {
	f, err := c.walk(ctx, pace, path)
	if err != nil {
		return nil, err
	}
	if err := f.open(ctx, pace, flags); err != nil {
		f.Clunk()
		return nil, err
	}
	return f, nil
}

func (f *Fid) open(ctx context.Context, pace Pace, flags uint32) error {
	r, err := f.c.call(ctx, pace, wire.Tlopen, func(b []byte) []byte { return wire.Put32(wire.Put32(b, f.n), flags) })
	f.Qid = r.Qid()
	return err
}

const maxText = 1 << 20 // of a file that is read whole

// Text returns the contents of a file that ends.
func (c *Conn) Text(ctx context.Context, pace Pace, path []string) (string, error) {
	f, err := c.open(ctx, pace, path, wire.Rdonly)
	if err != nil {
		return "", err
	}
	defer f.Clunk()
	return f.text(ctx, pace)
}

func (f *Fid) text(ctx context.Context, pace Pace) (string, error) {
	var text []byte
	p := make([]byte, 8<<10)
	for {
		got, err := f.ReadAt(ctx, pace, p, int64(len(text)))
		if err != nil || got == 0 {
			return string(text), err
		}
		if text = append(text, p[:got]...); len(text) > maxText {
			return "", f.c.liar("a text without an end")
		}
	}
}

// LastError returns the text of the last error that a server of ours answered
// with on this connection: 9P2000.L carries its number alone.
func (c *Conn) LastError(ctx context.Context) (string, error) {
	f := &Fid{c: c, n: c.newFid(), name: "err"}
	if err := c.attach(ctx, f.n, "err"); err != nil {
		c.unused(f.n)
		return "", err
	}
	defer f.Clunk()
	if err := f.open(ctx, Quick, wire.Rdonly); err != nil {
		return "", err
	}
	text, err := f.text(ctx, Quick)
	return strings.TrimSuffix(text, "\n"), err
}

// Stat describes the file at path.
func (c *Conn) Stat(ctx context.Context, path []string) (st fs.Stat, err error) {
	err = c.At(ctx, path, func(f *Fid) error {
		st, err = f.Stat(ctx)
		return err
	})
	return st, err
}

// do makes a request of which the answer says nothing.
func (f *Fid) do(ctx context.Context, typ uint8, fields func([]byte) []byte) error {
	_, err := f.c.call(ctx, Quick, typ, func(b []byte) []byte { return fields(wire.Put32(b, f.n)) })
	return err
}

// Create makes a file in the directory f, and opens it. F is the file then.
func (f *Fid) Create(ctx context.Context, name string, flags int, perm os.FileMode) error {
	r, err := f.c.call(ctx, Quick, wire.Tlcreate, func(b []byte) []byte {
		b = wire.Put32(wire.PutString(wire.Put32(b, f.n), name), wire.LinuxFlags(flags))
		return wire.Put32(wire.Put32(b, fs.UnixMode(perm)&^fs.UnixType), 0)
	})
	if err == nil {
		f.name, f.Qid = name, r.Qid()
	}
	return err
}

func (f *Fid) Mkdir(ctx context.Context, name string, perm os.FileMode) error {
	return f.do(ctx, wire.Tmkdir, func(b []byte) []byte {
		return wire.Put32(wire.Put32(wire.PutString(b, name), fs.UnixMode(perm)&^fs.UnixType), 0)
	})
}

// Remove removes a file of the directory f; dir says that it is a directory.
func (f *Fid) Remove(ctx context.Context, name string, dir bool) error {
	flags := uint32(0)
	if dir {
		flags = wire.RemoveDir
	}
	return f.do(ctx, wire.Tunlinkat, func(b []byte) []byte { return wire.Put32(wire.PutString(b, name), flags) })
}

func (f *Fid) Rename(ctx context.Context, name string, to *Fid, newname string) error {
	return f.do(ctx, wire.Trenameat, func(b []byte) []byte {
		return wire.PutString(wire.Put32(wire.PutString(b, name), to.n), newname)
	})
}

func (f *Fid) Symlink(ctx context.Context, name, target string) error {
	return f.do(ctx, wire.Tsymlink, func(b []byte) []byte {
		return wire.Put32(wire.PutString(wire.PutString(b, name), target), 0)
	})
}

func (f *Fid) Link(ctx context.Context, name string, target *Fid) error {
	return f.do(ctx, wire.Tlink, func(b []byte) []byte { return wire.PutString(wire.Put32(b, target.n), name) })
}

func (f *Fid) Set(ctx context.Context, change fs.Change) error {
	return f.do(ctx, wire.Tsetattr, func(b []byte) []byte { return wire.PutChange(b, change) })
}

// Sync has what was written taken and made durable.
func (f *Fid) Sync(ctx context.Context) error {
	return f.do(ctx, wire.Tfsync, func(b []byte) []byte { return wire.Put32(b, 0) })
}

// Close gives f back, and waits for that.
func (f *Fid) Close(ctx context.Context) error {
	return f.do(ctx, wire.Tclunk, func(b []byte) []byte { return b })
}

// Clunk gives f back. Nobody waits for the answer, after which its number can
// be used again.
func (f *Fid) Clunk() {
	q := &rpc{typ: wire.Tclunk, got: make(chan wire.Cutter, 1), fid: f.n}
	if f.c.enter(q) == nil {
		f.c.write(q, func(b []byte) []byte { return wire.Put32(b, f.n) })
	}
}

// Conn returns the connection that f is of.
func (f *Fid) Conn() *Conn { return f.c }

func (f *Fid) Readlink(ctx context.Context) (string, error) {
	r, err := f.c.call(ctx, Quick, wire.Treadlink, func(b []byte) []byte { return wire.Put32(b, f.n) })
	if err != nil {
		return "", err
	}
	target := r.Str()
	if r.End() != nil {
		return "", f.c.liar("malformed link")
	}
	return target, nil
}

func (f *Fid) Stat(ctx context.Context) (fs.Stat, error) {
	r, err := f.c.call(ctx, Quick, wire.Tgetattr, func(b []byte) []byte { return wire.Put64(wire.Put32(b, f.n), wire.AllAttrs) })
	if err != nil {
		return fs.Stat{}, err
	}
	_, st := r.Attr()
	if r.End() != nil {
		return fs.Stat{}, f.c.liar("malformed attributes")
	}
	st.Name = f.name
	return st, nil
}

// Space is that of the file system that f is on.
func (f *Fid) Space(ctx context.Context) (fs.Space, error) {
	r, err := f.c.call(ctx, Quick, wire.Tstatfs, func(b []byte) []byte { return wire.Put32(b, f.n) })
	if err != nil {
		return fs.Space{}, err
	}
	r.U32() // the kind of file system
	sp := fs.Space{Block: r.U32(), Blocks: r.U64(), Free: r.U64(), Avail: r.U64(), Files: r.U64(), FilesFree: r.U64()}
	r.Take(8 + 4) // its number, and how long names may be
	if r.End() != nil {
		return fs.Space{}, f.c.liar("malformed file system")
	}
	return sp, nil
}

// ReadAt reads what fits into p and one message. At the end that is nothing.
func (f *Fid) ReadAt(ctx context.Context, pace Pace, p []byte, off int64) (int, error) {
	n, err := f.readAt(ctx, pace, p, off)
	if n == 0 && err == nil && !f.c.plain {
		// A server that takes us for Linux' client says so, once, where a
		// stream has no more just now.
		n, err = f.readAt(ctx, pace, p, off)
	}
	return n, err
}

func (f *Fid) readAt(ctx context.Context, pace Pace, p []byte, off int64) (int, error) {
	p = p[:min(len(p), int(f.c.size())-wire.ReadLen)]
	r, err := f.c.call(ctx, pace, wire.Tread, func(b []byte) []byte {
		return wire.Put32(wire.Put64(wire.Put32(b, f.n), uint64(off)), uint32(len(p)))
	})
	if err != nil {
		return 0, err
	}
	data := r.Data()
	if r.End() != nil || len(data) > len(p) {
		return 0, f.c.liar("a read of %d bytes gave %d", len(p), len(data))
	}
	return copy(p, data), nil
}

// WriteAt writes what of p fits into one message.
func (f *Fid) WriteAt(ctx context.Context, pace Pace, p []byte, off int64) (int, error) {
	p = p[:min(len(p), f.c.Room())]
	r, err := f.c.call(ctx, pace, wire.Twrite, func(b []byte) []byte {
		b = wire.Put32(wire.Put64(wire.Put32(b, f.n), uint64(off)), uint32(len(p)))
		return append(b, p...)
	})
	if err != nil {
		return 0, err
	}
	got := r.U32()
	if r.End() != nil || int64(got) > int64(len(p)) {
		return 0, f.c.liar("a write of %d bytes took %d", len(p), got)
	}
	return int(got), nil
}

// Write writes all of p, by as many messages as it takes. Of a server that
// takes nothing of one it is an error.
func (f *Fid) Write(ctx context.Context, pace Pace, p []byte, off int64) (done int, err error) {
	for {
		n, err := f.WriteAt(ctx, pace, p[done:], off+int64(done))
		done += n
		switch {
		case err != nil || done == len(p):
			return done, err
		case n == 0:
			return done, fmt.Errorf("%w: %w", fs.ErrIO, io.ErrShortWrite)
		}
	}
}
