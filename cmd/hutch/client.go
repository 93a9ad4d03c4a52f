package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/hugelgupf/p9/linux"
	"github.com/hugelgupf/p9/p9"

	"hutch/fs"
	"hutch/fs/ninep"
	"hutch/fs/ninep/errno"
	"hutch/fs/ninep/wire"
)

// A tree is hutchd's, by path: github.com/hugelgupf/p9's own client over one
// connection. That can cancel nothing, but the service gives up the reads and
// writes of a file that is closed.
type tree struct {
	*p9.Client
	root p9.File
}

// errLost is why calls fail once hutchd is gone.
var errLost = errors.New("connection lost")

// failed tells what failed. Of an error of hutchd the protocol carries the
// number alone; the service keeps the text of the last one of each connection,
// and one of another kind is of another request that was under way on ours.
func (t *tree) failed(op, name string, err error) error {
	var number linux.Errno
	switch {
	case err == nil || err == io.EOF:
		return err
	case !errors.As(err, &number):
		return fmt.Errorf("%s %s: %w: %w: %w", op, name, fs.ErrIO, errLost, err)
	}
	err = fmt.Errorf("%s %s: %w", op, name, fs.Kind(errno.Local(uint32(number))))
	if text, terr := t.lastError(); terr == nil && fs.SaysMore(text, err) {
		return &fs.Told{Text: text, Err: err}
	}
	return err
}

// attach attaches to the tree at addr. The connection ends with ctx.
func attach(ctx context.Context, addr string) (*tree, error) {
	network, address, err := ninep.SplitAddr(addr)
	if err != nil {
		return nil, err
	}
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { c.Close() })
	t := &tree{}
	if t.Client, err = p9.NewClient(c, p9.WithMessageSize(256<<10)); err == nil {
		t.root, err = t.Attach("")
	}
	if err == nil {
		return t, nil
	}
	c.Close()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, t.failed("attach", "/", err)
}

func split(name string) []string {
	return slices.DeleteFunc(strings.Split(name, "/"), func(s string) bool { return s == "" || s == "." })
}

// walk returns a new file for the one called name.
func (t *tree) walk(name string) (p9.File, error) { return walkFrom(t.root, split(name)) }

func walkFrom(f p9.File, names []string) (p9.File, error) {
	n := min(len(names), wire.MaxWalk)
	qids, next, err := f.Walk(names[:n])
	if err == nil && len(qids) < n { // then there is no next; the name that leads nowhere says why
		next.Close()
		n = len(qids)
		next, err = walkFrom(f, names[:n])
	}
	if err != nil || n == len(names) {
		return next, err
	}
	defer next.Close()
	return walkFrom(next, names[n:])
}

// at makes a call on the file called name.
func (t *tree) at(name string, call func(p9.File) error) error {
	f, err := t.walk(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return call(f)
}

func (t *tree) mkdir(name string, perm os.FileMode) error {
	return t.failed("mkdir", name, t.at(path.Dir(name), func(dir p9.File) error {
		_, err := dir.Mkdir(path.Base(name), p9.FileMode(perm), p9.NoUID, p9.NoGID)
		return err
	}))
}

func (t *tree) symlink(target, name string) error {
	return t.failed("symlink", name, t.at(path.Dir(name), func(dir p9.File) error {
		_, err := dir.Symlink(target, path.Base(name), p9.NoUID, p9.NoGID)
		return err
	}))
}

// remove removes a file, or an empty directory.
func (t *tree) remove(name string) error {
	f, err := t.walk(name)
	if err == nil {
		err = f.(interface{ Remove() error }).Remove() // which closes it, too
	}
	return t.failed("remove", name, err)
}

func (t *tree) readlink(name string) (target string, err error) {
	err = t.at(name, func(f p9.File) (err error) {
		target, err = f.Readlink()
		return err
	})
	return target, t.failed("readlink", name, err)
}

// stat returns the mode of the file called name.
func (t *tree) stat(name string) (os.FileMode, error) {
	attr, err := t.attr(name)
	return attr.Mode.OSMode(), err
}

// size returns how many bytes the file called name has.
func (t *tree) size(name string) (int64, error) {
	attr, err := t.attr(name)
	return int64(attr.Size), err
}

func (t *tree) attr(name string) (attr p9.Attr, err error) {
	err = t.at(name, func(f p9.File) (err error) {
		_, _, attr, err = f.GetAttr(p9.AttrMaskAll)
		return err
	})
	return attr, t.failed("stat", name, err)
}

func (t *tree) chmod(name string, mode os.FileMode) error {
	return t.failed("chmod", name, t.at(name, func(f p9.File) error {
		return f.SetAttr(p9.SetAttrMask{Permissions: true}, p9.SetAttr{Permissions: p9.FileMode(mode.Perm())})
	}))
}

// readDir lists a directory, sorted by name.
func (t *tree) readDir(name string) (list []fs.Entry, err error) {
	err = t.at(name, func(f p9.File) error {
		_, _, err := f.Open(p9.ReadOnly)
		for next := uint64(0); err == nil; {
			var some p9.Dirents
			if some, err = f.Readdir(next, 64<<10); len(some) == 0 {
				break
			}
			for _, d := range some {
				next = d.Offset
				if d.Name != "." && d.Name != ".." {
					list = append(list, fs.Entry{Name: d.Name, Mode: fs.FileMode(uint32(d.Type) << 12).Type()})
				}
			}
		}
		return err
	})
	slices.SortFunc(list, func(a, b fs.Entry) int { return strings.Compare(a.Name, b.Name) })
	return list, t.failed("list", name, err)
}

// lastError returns the text of the last error that hutchd answered with on
// this connection.
func (t *tree) lastError() (string, error) {
	f, err := t.Attach("err")
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, _, err := f.Open(p9.ReadOnly); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<62))
	return strings.TrimSuffix(string(text), "\n"), err
}

// A file is an open file. It is read, or written, through from its start, and
// anywhere. Who reads a stream has to ask for as much each time: the answer
// to what just continues a short read is nothing, for the sake of Linux.
type file struct {
	p9.File
	t    *tree
	name string
	off  int64
}

// open opens a file with flags of os.OpenFile.
func (t *tree) open(name string, flags int) (*file, error) {
	f, err := t.walk(name)
	if err == nil {
		if _, _, err = f.Open(p9.OpenFlags(wire.LinuxFlags(flags))); err == nil {
			return &file{File: f, t: t, name: name}, nil
		}
		f.Close()
	}
	return nil, t.failed("open", name, err)
}

// create makes a file, or empties the one there is, and opens it to be written.
func (t *tree) create(name string, perm os.FileMode) (*file, error) {
	if f, err := t.open(name, os.O_WRONLY|os.O_TRUNC); !isMissing(err) {
		return f, err
	}
	f, err := t.walk(path.Dir(name))
	if err == nil {
		flags := p9.OpenFlags(wire.LinuxFlags(os.O_WRONLY | os.O_TRUNC))
		if _, _, _, err = f.Create(path.Base(name), flags, p9.FileMode(perm), p9.NoUID, p9.NoGID); err == nil {
			return &file{File: f, t: t, name: name}, nil
		}
		f.Close()
	}
	return nil, t.failed("create", name, err)
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	return n, f.t.failed("read", f.name, err)
}

func (f *file) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.off)
	f.off += int64(n)
	return n, err
}

// WriteAt goes on after a part: what is wrong with the rest, its write tells.
func (f *file) WriteAt(p []byte, off int64) (done int, err error) {
	for {
		n, err := f.File.WriteAt(p[done:], off+int64(done))
		done += n
		switch {
		case err != nil || done == len(p):
			return done, f.t.failed("write", f.name, err)
		case n == 0:
			return done, fmt.Errorf("write %s: %w: %w", f.name, fs.ErrIO, io.ErrShortWrite)
		}
	}
}

func (f *file) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, f.off)
	f.off += int64(n)
	return n, err
}

// closeWith has the file closed when ctx is done, or close is called.
func (f *file) closeWith(ctx context.Context) (close func()) {
	stop := context.AfterFunc(ctx, func() { f.File.Close() })
	return func() {
		if stop() {
			f.File.Close()
		}
	}
}

// Close closes the file. Its error is that of finishing what was written.
func (f *file) Close() error { return f.t.failed("close", f.name, f.File.Close()) }
