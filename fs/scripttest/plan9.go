package scripttest

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"9fans.net/go/plan9"
	classic "9fans.net/go/plan9/client"

	"hutch/fs"
)

// lost gives the error its kind that the client itself makes up when a walk
// ends early.
func lost(err error) error {
	if err != nil && strings.Contains(err.Error(), "not found") {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}

type plan9Tree struct{ addr string }

// Plan9 returns the tree over 9P2000, each file on a connection of its own:
// the 9fans client cannot flush, so a blocked read ends with its connection.
func Plan9(addr string) Frontend { return plan9Tree{addr} }

func (t plan9Tree) can(what string) bool { return what == "text" || what == "cancel" }

func (t plan9Tree) fsys() (*classic.Conn, *classic.Fsys, error) {
	c, err := classic.Dial("unix", strings.TrimPrefix(t.addr, "unix!"))
	if err != nil {
		return nil, nil, err
	}
	f, err := c.Attach(nil, "tester", "")
	if err != nil {
		c.Close()
	}
	return c, f, err
}

// with does f with a connection.
func (t plan9Tree) with(f func(*classic.Fsys) error) error {
	c, fsys, err := t.fsys()
	if err != nil {
		return err
	}
	defer c.Close()
	return f(fsys)
}

func plan9Mode(flags int) uint8 {
	mode := uint8(flags & (os.O_WRONLY | os.O_RDWR))
	if flags&os.O_TRUNC != 0 {
		mode |= plan9.OTRUNC
	}
	return mode
}

func (t plan9Tree) open(name string, flags int) (file, error) {
	c, fsys, err := t.fsys()
	if err != nil {
		return nil, err
	}
	var fid *classic.Fid
	if flags&os.O_CREATE != 0 {
		fid, err = fsys.Create(name, plan9Mode(flags), 0o644)
	} else {
		fid, err = fsys.Open(name, plan9Mode(flags))
	}
	if err != nil {
		c.Close()
		return nil, lost(err)
	}
	return &plan9File{c, fid, flags&os.O_APPEND != 0}, nil
}

func (t plan9Tree) mkdir(name string) error {
	return t.with(func(f *classic.Fsys) error {
		fid, err := f.Create(name, plan9.OREAD, plan9.DMDIR|0o755)
		if err != nil {
			return err
		}
		return fid.Close()
	})
}

func (t plan9Tree) remove(name string, _ bool) error {
	return t.with(func(f *classic.Fsys) error { return lost(f.Remove(name)) })
}

func (t plan9Tree) rename(from, to string) error {
	if path.Dir(path.Clean(from)) != path.Dir(path.Clean(to)) {
		return fmt.Errorf("9P2000 renames within a directory only")
	}
	return t.with(func(f *classic.Fsys) error {
		var d plan9.Dir
		d.Null()
		d.Name = path.Base(to)
		return f.Wstat(from, &d)
	})
}

func (t plan9Tree) list(name string) ([]string, error) {
	var names []string
	err := t.with(func(f *classic.Fsys) error {
		fid, err := f.Open(name, plan9.OREAD)
		if err != nil {
			return err
		}
		defer fid.Close()
		dirs, err := fid.Dirreadall()
		for _, d := range dirs {
			names = append(names, d.Name)
		}
		return err
	})
	return names, err
}

func (t plan9Tree) stat(name string) (dir bool, size uint64, err error) {
	err = t.with(func(f *classic.Fsys) error {
		d, err := f.Stat(name)
		if err != nil {
			return err
		}
		dir, size = d.Mode&plan9.DMDIR != 0, d.Length
		return nil
	})
	return dir, size, err
}

type plan9File struct {
	c      *classic.Conn
	fid    *classic.Fid
	append bool
}

func (f *plan9File) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	stop := context.AfterFunc(ctx, func() { f.c.Close() })
	defer stop()
	n, err := f.fid.ReadAt(p, off)
	if err == io.EOF {
		err = nil
	}
	return n, err
}

func (f *plan9File) WriteAt(_ context.Context, p []byte, off int64) (int, error) {
	if f.append {
		d, err := f.fid.Stat()
		if err != nil {
			return 0, err
		}
		off = int64(d.Length)
	}
	return f.fid.WriteAt(p, off)
}

// Sync is a change of nothing.
func (f *plan9File) Sync(context.Context) error {
	var d plan9.Dir
	d.Null()
	return f.fid.Wstat(&d)
}

func (f *plan9File) Close() error {
	err := f.fid.Close()
	f.c.Close()
	return err
}
