// Package folder serves a folder of the host as nodes. Every operation goes
// through os.Root, so that no path and no symbolic link leads out of it,
// however the folder changes meanwhile. Devices, pipes and sockets in it are
// listed but not opened.
package folder

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"syscall"
	"time"

	"hutch/fs/node"
)

// A Folder is an open folder of the host.
type Folder struct {
	root *os.Root
	dir  string
	name string
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
func (f *Folder) Root() node.Node { return top{&file{f: f, path: "."}} }

// ReadOnly returns the folder's own node, below which nothing can be changed.
func (f *Folder) ReadOnly() node.Node { return still{&file{f: f, path: "."}} }

// top is the folder itself, which a frontend may hand to the kernel.
type top struct{ *file }

func (t top) HostDir() string { return t.f.dir }

// file is one file or directory in a folder, known by its path.
type file struct {
	node.Refuse
	f    *Folder
	path string
}

func (n *file) child(name string) *file { return &file{f: n.f, path: path.Join(n.path, name)} }

func (n *file) Stat(context.Context) (node.Stat, error) {
	fi, err := n.f.root.Lstat(n.path)
	if err != nil {
		return node.Stat{}, err
	}
	st := stat(fi)
	if n.path == "." {
		st.Name = n.f.name
	}
	return st, nil
}

// stat makes a Stat of what the host says. Inode numbers of the host are set
// apart from the made-up ones by a high bit, and told apart by device.
func stat(fi fs.FileInfo) node.Stat {
	st := node.Stat{
		Name: fi.Name(), Mode: fi.Mode(), Size: uint64(fi.Size()), Nlink: 1,
		Mtime: fi.ModTime(), Atime: fi.ModTime(), Ctime: fi.ModTime(),
	}
	if s, ok := fi.Sys().(*syscall.Stat_t); ok {
		st.Qid = 1<<62 | (uint64(s.Dev)*0x9e37&0x3fff)<<48 | s.Ino&(1<<48-1)
		st.Nlink, st.UID, st.GID = uint32(s.Nlink), s.Uid, s.Gid
		st.Atime, st.Ctime = times(s)
	}
	if fi.IsDir() {
		st.Size = 0
	}
	st.Vers = uint32(st.Mtime.UnixNano()>>10) ^ uint32(st.Size) | 1
	return st
}

func (n *file) Walk(ctx context.Context, name string) (node.Node, error) {
	if n.path != "." {
		if fi, err := n.f.root.Lstat(n.path); err != nil {
			return nil, err
		} else if !fi.IsDir() {
			return nil, node.ErrNotDir
		}
	}
	c := n.child(name)
	if _, err := n.f.root.Lstat(c.path); err != nil {
		return nil, err
	}
	return c, nil
}

func (n *file) List(context.Context) ([]node.Entry, error) {
	d, err := n.f.root.Open(n.path)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	list := make([]node.Entry, 0, len(entries))
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil {
			continue // gone meanwhile
		}
		list = append(list, node.Entry{Name: e.Name(), Mode: fi.Mode(), Qid: stat(fi).Qid})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list, nil
}

func (n *file) Open(_ context.Context, flags int) (node.Handle, error) {
	fi, err := n.f.root.Lstat(n.path)
	switch {
	case err != nil:
		return nil, err
	case fi.IsDir():
		return nil, node.ErrIsDir
	case !fi.Mode().IsRegular():
		return nil, fmt.Errorf("%w: %s is not a regular file", node.ErrPermission, n.path)
	}
	return n.open(flags, 0)
}

// open opens a regular file. O_NONBLOCK keeps a pipe that came in its place
// meanwhile from holding us up.
func (n *file) open(flags int, perm fs.FileMode) (*handle, error) {
	f, err := n.f.root.OpenFile(n.path, flags&^os.O_APPEND|syscall.O_NONBLOCK, perm.Perm())
	if err != nil {
		return nil, err
	}
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("%w: %s is not a regular file", node.ErrPermission, n.path)
	}
	return &handle{f: f, append: flags&os.O_APPEND != 0}, nil
}

func (n *file) Create(_ context.Context, name string, flags int, perm fs.FileMode) (node.Node, node.Handle, error) {
	c := n.child(name)
	h, err := c.open(flags|os.O_CREATE, perm)
	if err != nil {
		return nil, nil, err
	}
	return c, h, nil
}

func (n *file) Mkdir(_ context.Context, name string, perm fs.FileMode) (node.Node, error) {
	c := n.child(name)
	return c, n.f.root.Mkdir(c.path, perm.Perm())
}

func (n *file) Remove(_ context.Context, name string, dir bool) error {
	c := n.child(name)
	fi, err := n.f.root.Lstat(c.path)
	switch {
	case err != nil:
		return err
	case dir && !fi.IsDir():
		return node.ErrNotDir
	case !dir && fi.IsDir():
		return node.ErrIsDir
	}
	return n.f.root.Remove(c.path)
}

func (n *file) Rename(ctx context.Context, name string, dst node.Node, newname string) error {
	to := plain(node.Inner(ctx, dst))
	if to == nil || to.f != n.f {
		return syscall.EXDEV
	}
	return n.f.root.Rename(n.child(name).path, to.child(newname).path)
}

// plain returns the file behind a node of this package, or nil.
func plain(n node.Node) *file {
	switch n := n.(type) {
	case *file:
		return n
	case top:
		return n.file
	}
	return nil
}

func (n *file) Symlink(_ context.Context, name, target string) (node.Node, error) {
	c := n.child(name)
	return c, n.f.root.Symlink(target, c.path)
}

func (n *file) Link(_ context.Context, name string, target node.Node) (node.Node, error) {
	from := plain(target)
	if from == nil || from.f != n.f {
		return nil, syscall.EXDEV
	}
	c := n.child(name)
	return c, n.f.root.Link(from.path, c.path)
}

func (n *file) Readlink(context.Context) (string, error) { return n.f.root.Readlink(n.path) }

func (n *file) Set(_ context.Context, c node.Change) error {
	if c.Size != nil {
		h, err := n.open(os.O_WRONLY, 0)
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
