// Package folder serves a folder of the host as nodes. Every operation goes
// through os.Root, so that no path and no symbolic link leads out of it,
// however the folder changes meanwhile. Devices, pipes and sockets in it are
// listed but not opened.
package folder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"sort"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs"
)

// A Folder is an open folder of the host.
type Folder struct {
	root *os.Root
	dir  string
	name string

	wholes *wholes // of a folder of small files

	// Links tell what the links in the folder mean if another machine wrote
	// them. Set before the folder is served.
	Links *fs.Links

	// Admit says why there can be no file of a name: one that is made, or gets
	// another name. Nil: all can be. Set before the folder is served.
	Admit func(name string) error

	// Fits says why the file of a name, in a folder of small files, cannot have
	// a text beside the others. Nil: all fit. Set before the folder is served.
	Fits func(name string, text []byte) error

	// Missing says more of a path that is not there, if it is not nil. Set
	// before the folder is served.
	Missing func(path string) error

	// MaxEntries is how many names a directory may have that is listed; 0: any
	// number. Set before the folder is served.
	MaxEntries int

	// ReadOnly says that nothing in the folder can be changed. Set before it is
	// served.
	ReadOnly bool
}

// admit says why the entry called name cannot be made.
func (f *Folder) admit(name string) error {
	if err := f.change(name); err != nil || f.Admit == nil {
		return err
	}
	return f.Admit(name)
}

// change says why the file called name cannot be changed.
func (f *Folder) change(name string) error {
	if f.ReadOnly {
		return fmt.Errorf("%w: %s", fs.ErrReadOnly, name)
	}
	return nil
}

// Open opens the folder dir, which shows itself as name.
func Open(dir, name string) (*Folder, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, err
	}
	return &Folder{root: root, dir: abs, name: name}, nil
}

// Close closes the folder; nodes and handles of it fail from then on.
func (f *Folder) Close() error { return f.root.Close() }

// Root returns the folder's own node.
func (f *Folder) Root() fs.Node { return &file{f: f, path: "."} }

// file is one file or directory in a folder, known by its path.
type file struct {
	fs.Refuse
	f    *Folder
	path string
	dir  bool                        // a walk found a directory
	seen atomic.Pointer[os.FileInfo] // what a walk saw, until it is asked for by the one who walked
	at   time.Time                   // when
}

// freshness is how long a walk's sight answers for the file: every walk is
// followed by a stat.
const freshness = time.Millisecond

// HostDir is of the folder itself, unless the kernel is not to write to it.
func (n *file) HostDir() string {
	if n.path != "." || n.f.wholes != nil || n.f.ReadOnly {
		return ""
	}
	return n.f.dir
}

// Links are those of the folder itself, for all below it.
func (n *file) Links() *fs.Links {
	if n.path != "." {
		return nil
	}
	return n.f.Links
}

func (n *file) child(name string) *file { return &file{f: n.f, path: path.Join(n.path, name)} }

func (n *file) Stat(context.Context) (fs.Stat, error) {
	fi, err := n.look()
	if err != nil {
		return fs.Stat{}, err
	}
	st := stat(fi)
	if n.path == "." {
		st.Name = n.f.name
	}
	if text, ok := n.pending(); ok {
		st.Size = uint64(len(text))
	}
	return st, nil
}

// look describes the file, as the walk saw it if that was just now.
func (n *file) look() (os.FileInfo, error) {
	if seen := n.seen.Swap(nil); seen != nil && time.Since(n.at) < freshness {
		return *seen, nil
	}
	return n.f.root.Lstat(n.path)
}

// stat makes a Stat of what the host says.
func stat(fi os.FileInfo) fs.Stat {
	st := fs.Stat{
		Name: fi.Name(), Mode: fi.Mode(), Size: uint64(fi.Size()), Nlink: 1,
		Mtime: fi.ModTime(), Atime: fi.ModTime(), Ctime: fi.ModTime(),
	}
	if s, ok := fi.Sys().(*syscall.Stat_t); ok {
		st.Qid = fs.HostQid(uint64(s.Dev), s.Ino)
		st.Nlink, st.UID, st.GID = uint32(s.Nlink), s.Uid, s.Gid
		st.Atime, st.Ctime = times(s)
	}
	if fi.IsDir() {
		st.Size = 0
	}
	st.Vers = uint32(st.Mtime.UnixNano()>>10) ^ uint32(st.Size) | 1
	return st
}

func (n *file) Walk(ctx context.Context, name string) (fs.Node, error) {
	if n.path != "." && !n.dir {
		if fi, err := n.f.root.Lstat(n.path); err != nil {
			return nil, err
		} else if !fi.IsDir() {
			return nil, fs.ErrNotDir
		}
	}
	c := n.child(name)
	fi, err := n.f.lstat(c.path)
	if err != nil {
		return nil, err
	}
	c.dir, c.at = fi.IsDir(), time.Now()
	c.seen.Store(&fi)
	return c, nil
}

// lstat describes what is at a path.
func (f *Folder) lstat(path string) (os.FileInfo, error) {
	fi, err := f.root.Lstat(path)
	if errors.Is(err, os.ErrNotExist) && f.Missing != nil {
		err = cmp.Or(f.Missing(path), err)
	}
	return fi, err
}

func (n *file) List(context.Context) ([]fs.Entry, error) {
	d, infos, err := n.read()
	if err != nil {
		return nil, err
	}
	defer d.Close()
	list := make([]fs.Entry, 0, len(infos))
	for _, fi := range infos {
		list = append(list, fs.Entry{Name: fi.Name(), Mode: fi.Mode(), Qid: stat(fi).Qid})
	}
	return list, nil
}

// Describe tells what List does, and all else there is to know.
func (n *file) Describe(context.Context) ([]fs.Described, error) {
	d, infos, err := n.read()
	if err != nil {
		return nil, err
	}
	defer d.Close()
	list := make([]fs.Described, 0, len(infos))
	text := make([]byte, 4096)
	for _, fi := range infos {
		of := fs.Described{Stat: stat(fi)}
		if fi.Mode().Type() == os.ModeSymlink {
			// What is not known of a link is asked for.
			if l, err := unix.Readlinkat(int(d.Fd()), fi.Name(), text); err == nil && l < len(text) {
				of.Target = string(text[:l])
			}
		}
		list = append(list, of)
	}
	return list, nil
}

// read opens the directory and returns what is in it, sorted by name.
func (n *file) read() (*os.File, []os.FileInfo, error) {
	d, err := n.f.root.Open(n.path)
	if err != nil {
		return nil, nil, err
	}
	entries, err := n.f.entries(d)
	if err != nil {
		d.Close()
		return nil, nil, err
	}
	infos := make([]os.FileInfo, 0, len(entries))
	for _, e := range entries {
		if n.f.wholes != nil && aside.MatchString(e.Name()) {
			continue
		}
		if fi, err := e.Info(); err == nil { // not gone meanwhile
			infos = append(infos, fi)
		}
	}
	sort.Slice(infos, func(i, j int) bool { return infos[i].Name() < infos[j].Name() })
	return d, infos, nil
}

// entries returns what is in a directory.
func (f *Folder) entries(d *os.File) ([]os.DirEntry, error) {
	if f.MaxEntries == 0 {
		return d.ReadDir(-1)
	}
	entries, err := d.ReadDir(f.MaxEntries + 1)
	switch {
	case errors.Is(err, io.EOF): // it is empty
		return nil, nil
	case len(entries) > f.MaxEntries:
		return nil, fmt.Errorf("%w: more than %d names in a folder", syscall.EOVERFLOW, f.MaxEntries)
	}
	return entries, err
}

func (n *file) Open(_ context.Context, flags int) (fs.Handle, error) {
	if flags&(os.O_WRONLY|os.O_RDWR|os.O_TRUNC) != 0 {
		if err := n.f.change(n.path); err != nil {
			return nil, err
		}
	}
	fi, err := n.f.root.Lstat(n.path)
	switch {
	case err != nil:
		return nil, err
	case fi.IsDir():
		return nil, fs.ErrIsDir
	case !fi.Mode().IsRegular():
		return nil, fmt.Errorf("%w: %s is not a regular file", fs.ErrPermission, n.path)
	}
	return n.open(flags, 0)
}

func (n *file) open(flags int, perm os.FileMode) (fs.Handle, error) {
	n.seen.Store(nil)
	if n.f.wholes != nil && flags&(os.O_WRONLY|os.O_RDWR) != 0 {
		w, err := n.join(flags, perm)
		if err != nil {
			return nil, err
		}
		return &wholeHandle{f: n.f, w: w, append: flags&os.O_APPEND != 0}, nil
	}
	if text, ok := n.pending(); ok {
		return fs.OpenText(string(text)), nil
	}
	h, err := n.openPlain(flags, perm)
	if err != nil {
		return nil, err // and no handle that is none
	}
	return h, nil
}

// openPlain opens a regular file. O_NONBLOCK keeps a pipe that came in its place
// meanwhile from holding us up.
func (n *file) openPlain(flags int, perm os.FileMode) (*handle, error) {
	n.seen.Store(nil)
	f, err := n.f.root.OpenFile(n.path, flags&^os.O_APPEND|syscall.O_NONBLOCK, perm.Perm())
	if err != nil {
		return nil, err
	}
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("%w: %s is not a regular file", fs.ErrPermission, n.path)
	}
	return &handle{f: f, append: flags&os.O_APPEND != 0}, nil
}

func (n *file) Create(ctx context.Context, name string, flags int, perm os.FileMode) (fs.Node, fs.Handle, error) {
	if n.f.ReadOnly && flags&os.O_EXCL == 0 {
		if c, err := n.Walk(ctx, name); err == nil { // to be opened, not made
			h, err := c.Open(ctx, flags)
			return c, h, err
		}
	}
	if err := n.f.admit(name); err != nil {
		return nil, nil, err
	}
	c := n.child(name)
	h, err := c.open(flags|os.O_CREATE, perm)
	if err != nil {
		return nil, nil, err
	}
	return c, h, nil
}

func (n *file) Mkdir(_ context.Context, name string, perm os.FileMode) (fs.Node, error) {
	if err := n.f.admit(name); err != nil {
		return nil, err
	}
	c := n.child(name)
	return c, n.f.root.Mkdir(c.path, perm.Perm())
}

func (n *file) Remove(_ context.Context, name string, dir bool) error {
	if err := n.f.change(name); err != nil {
		return err
	}
	c := n.child(name)
	fi, err := n.f.lstat(c.path)
	switch {
	case err != nil:
		return err
	case dir && !fi.IsDir():
		return fs.ErrNotDir
	case !dir && fi.IsDir():
		return fs.ErrIsDir
	}
	return n.f.wholes.move(c.path, "", func() error { return n.f.root.Remove(c.path) })
}

func (n *file) Rename(ctx context.Context, name string, dst fs.Node, newname string) error {
	if err := n.f.admit(newname); err != nil {
		return err
	}
	to, ok := fs.Inner(ctx, dst).(*file)
	if !ok || to.f != n.f {
		return syscall.EXDEV
	}
	old, new := n.child(name).path, to.child(newname).path
	return n.f.wholes.move(old, new, func() error { return n.f.root.Rename(old, new) })
}

func (n *file) Symlink(_ context.Context, name, target string) (fs.Node, error) {
	if err := n.f.admit(name); err != nil {
		return nil, err
	}
	c := n.child(name)
	return c, n.f.root.Symlink(target, c.path)
}

func (n *file) Link(_ context.Context, name string, target fs.Node) (fs.Node, error) {
	if err := n.f.admit(name); err != nil {
		return nil, err
	}
	from, ok := target.(*file)
	if !ok || from.f != n.f {
		return nil, syscall.EXDEV
	}
	c := n.child(name)
	return c, n.f.root.Link(from.path, c.path)
}

func (n *file) Readlink(context.Context) (string, error) { return n.f.root.Readlink(n.path) }

func (n *file) Set(_ context.Context, c fs.Change) error {
	if err := n.f.change(n.path); err != nil {
		return err
	}
	defer n.seen.Store(nil)
	cut := false
	if c.Size != nil {
		var err error
		if cut, err = n.resize(*c.Size); err != nil {
			return err
		}
	}
	if c.Size != nil && !cut {
		h, err := n.openPlain(os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer h.Close()
		if err := h.f.Truncate(int64(*c.Size)); err != nil {
			return err
		}
	}
	if c.Mode != nil {
		if err := n.f.root.Chmod(n.path, c.Mode.Perm()); err != nil {
			return err
		}
	}
	if c.UID != nil || c.GID != nil {
		if err := n.f.root.Lchown(n.path, id(c.UID), id(c.GID)); err != nil {
			return err
		}
	}
	if c.Atime != nil || c.Mtime != nil {
		return n.f.root.Chtimes(n.path, when(c.Atime), when(c.Mtime))
	}
	return nil
}

func id(n *uint32) int {
	if n == nil {
		return -1
	}
	return int(*n)
}

// when returns *t, or the zero time, which Chtimes leaves alone.
func when(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
