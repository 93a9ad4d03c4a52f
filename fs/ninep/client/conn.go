// Package client is a 9P2000.L client of a tree, made of
// github.com/hugelgupf/p9. It is what hutch's commands reach the service
// with, and the service the guests.
//
// The library has no Tflush and knows no contexts: a call lasts until the
// server answers or the connection ends. A blocked read or write of a File is
// ended by File.Close, as the server answers it before the Tclunk; all calls
// at once by Conn.Close. Who must not wait longer than some time makes the
// call in a goroutine of its own and closes the one or the other.
//
// The library trusts the server; a guest's is not to be trusted. So a guard
// (guard.go) stands between the library and the connection and ends the
// connection on the first reply that the library would stumble over.
package client

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"runtime"
	"strings"

	"github.com/hugelgupf/p9/p9"

	"hutch/fs"
	"hutch/fs/ninep"
)

const (
	msize    = 256 << 10
	maxWalk  = 16
	headRoom = 24 // for the head of a Twrite, as 9P has it

	// libraryData is less than what the library puts into one message
	// of msize. It would cut a longer read in pieces, and a stream that
	// has but the first of them would block in the second.
	libraryData = msize - 1024
)

// A Conn is a connection to a server. All methods may be called concurrently.
type Conn struct {
	g      *guard
	cl     *p9.Client
	root   p9.File
	iosize int // bytes of data in one message
}

// Dial connects to unix!PATH or tcp!HOST!PORT and attaches to the tree there.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	network, address, err := ninep.SplitAddr(addr)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	conn, err := New(c)
	if !stop() {
		if conn != nil {
			conn.Close()
		}
		return nil, context.Cause(ctx)
	}
	return conn, err
}

// New attaches to the tree served at the other end of c, which it takes over.
// It waits for the server; who closes c ends that.
func New(c net.Conn) (*Conn, error) {
	g := newGuard(c)
	conn, err := attach(g)
	if err != nil {
		g.Close()
		return nil, errorOf("attach", "/", err)
	}
	return conn, nil
}

func attach(g *guard) (*Conn, error) {
	cl, err := p9.NewClient(g, p9.WithMessageSize(msize))
	if err != nil {
		return nil, err
	}
	size := g.size()
	if size < 256 {
		return nil, fmt.Errorf("%w: server takes messages of %d bytes", fs.ErrIO, size)
	}
	root, err := cl.Attach("")
	if err != nil {
		return nil, err
	}
	unfinalize(root)
	return &Conn{g: g, cl: cl, root: root, iosize: min(int(size)-headRoom, libraryData)}, nil
}

// LastError returns the text of the last error that the server answered with
// on this connection, of which a call has the number alone.
func (c *Conn) LastError() (string, error) {
	f, err := c.cl.Attach("err")
	if err != nil {
		return "", errorOf("attach", "err", err)
	}
	unfinalize(f)
	if _, _, err := f.Open(p9.ReadOnly); err != nil {
		f.Close()
		return "", errorOf("open", "err", err)
	}
	file := c.newFile(f, "err")
	defer file.Close()
	text, err := io.ReadAll(file)
	return strings.TrimSuffix(string(text), "\n"), err
}

// unfinalize keeps the garbage collector from closing f: the library would
// wait for the server's answer in the goroutine of all finalizers.
func unfinalize(f p9.File) { runtime.SetFinalizer(f, nil) }

// fidOf returns the number of the library's file, which it does not tell.
func fidOf(f p9.File) uint32 {
	return uint32(reflect.ValueOf(f).Elem().FieldByName("fid").Uint())
}

// Close ends the connection and all calls under way.
func (c *Conn) Close() error { return c.g.Close() }

// Done is closed when the connection has ended, for whatever reason.
func (c *Conn) Done() <-chan struct{} { return c.g.done }

// Err says why the connection has ended, once Done is closed.
func (c *Conn) Err() error {
	select {
	case <-c.g.done:
		return c.g.err
	default:
		return nil
	}
}

// split makes the names of a path that leads down from the root.
func split(path string) []string {
	var names []string
	for name := range strings.SplitSeq(path, "/") {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}

// walk returns the file that names lead to.
func (c *Conn) walk(names []string) (p9.File, p9.QID, error) {
	f, qid, err := c.step(c.root, names[:min(maxWalk, len(names))])
	for rest := names[min(maxWalk, len(names)):]; err == nil && len(rest) > 0; {
		n := min(maxWalk, len(rest))
		up := f
		f, qid, err = c.step(up, rest[:n])
		up.Close()
		rest = rest[n:]
	}
	return f, qid, err
}

// step walks at most maxWalk names from f. Of a walk that stops midway the
// library says nothing, and the server not why; then it goes name by name.
func (c *Conn) step(f p9.File, names []string) (p9.File, p9.QID, error) {
	qids, to, err := f.Walk(names)
	if err != nil {
		return nil, p9.QID{}, err
	}
	unfinalize(to)
	switch {
	case len(qids) == len(names) && len(qids) > 0:
		return to, qids[len(qids)-1], nil
	case len(names) == 0:
		return to, p9.QID{}, nil
	case len(names) == 1 || len(qids) == 0:
		return nil, p9.QID{}, fmt.Errorf("%w: empty walk", fs.ErrIO)
	}
	// Here to is a fid that the server does not have.
	return c.crawl(f, names)
}

// crawl walks name by name.
func (c *Conn) crawl(f p9.File, names []string) (p9.File, p9.QID, error) {
	var qid p9.QID
	for i := range names {
		next, q, err := c.step(f, names[i:i+1])
		if i > 0 {
			f.Close()
		}
		if err != nil {
			return nil, p9.QID{}, err
		}
		f, qid = next, q
	}
	return f, qid, nil
}

// parent returns the directory that path is in, and the name there.
func (c *Conn) parent(path string) (p9.File, string, error) {
	names := split(path)
	if len(names) == 0 {
		return nil, "", fmt.Errorf("%w: no name", fs.ErrInvalid)
	}
	dir, _, err := c.walk(names[:len(names)-1])
	return dir, names[len(names)-1], err
}

// Open opens a file. Flags are those of os.OpenFile; with os.O_CREATE it is
// made, if it is not there, for its owner alone.
func (c *Conn) Open(path string, flags int) (*File, error) {
	if flags&os.O_CREATE != 0 {
		return c.Create(path, flags, 0o600)
	}
	f, _, err := c.walk(split(path))
	if err != nil {
		return nil, errorOf("open", path, err)
	}
	if _, _, err := f.Open(linuxFlags(flags)); err != nil {
		f.Close()
		return nil, errorOf("open", path, err)
	}
	return c.newFile(f, path), nil
}

// Create makes a file and opens it. One that is there already is opened,
// unless flags have os.O_EXCL.
func (c *Conn) Create(path string, flags int, perm os.FileMode) (*File, error) {
	dir, name, err := c.parent(path)
	if err != nil {
		return nil, errorOf("create", path, err)
	}
	f, _, _, err := dir.Create(name, linuxFlags(flags|os.O_CREATE), p9.FileMode(perm.Perm()), p9.NoUID, p9.NoGID)
	if err != nil {
		dir.Close()
		return nil, errorOf("create", path, err)
	}
	return c.newFile(f, path), nil
}
