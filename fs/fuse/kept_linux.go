package fuse

import (
	"time"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	gofuse "github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// unchanged is how long a file has been so before anything of it is kept.
var unchanged = 2 * time.Second

// keep is how long the kernel may keep it, if it hears nothing.
const keep = 10 * time.Second

// keepDirs is how long names of directories are kept. To take such a name
// back would take the working directory of who stands in it, so that is done
// for those that went; when news are lost the others are waited for.
const keepDirs = 100 * time.Millisecond

// A kept is what the kernel keeps of an entry of a directory.
type kept struct {
	dir  *hostNode
	name string // "": of the directory itself
	in   *gofs.Inode
	gone bool // the name may be another's
}

// changes returns what is kept no more when an entry changes: it, and, if that
// is of names, the directory's own times; mu is held.
func (n *hostNode) changes(name string, names bool) (old []kept) {
	n.watched.seen++
	for _, k := range []kept{{n, name, nil, names}, {n, "", nil, false}} {
		if in, ok := n.watched.kept[k.name]; ok && (k.name == name || names) {
			delete(n.watched.kept, k.name)
			k.in = in
			old = append(old, k)
		}
	}
	return old
}

// drop has the kernel ask again. It locks a directory to look into it, and to
// be told of an entry, of whatever name: after that no answer is on its way
// that was given before. Of a file it forgets the name, too: only when it looks
// one up does it take over a size before it copies.
func (k kept) drop() {
	switch {
	case k.name == "":
	case k.in.Mode() == unix.S_IFDIR && !k.gone:
		k.dir.NotifyEntry(".")
	default:
		k.dir.NotifyEntry(k.name)
	}
	changed(k.in)
}

// changed has the kernel ask again what a file is like. An answer that is on its
// way then holds for no time.
func changed(in *gofs.Inode) { in.NotifyContent(-1, 0) }

// about returns the directory and the name under which it is kept what n is
// like, of which fd is a descriptor. An open file may have another name by now,
// unless that is kept.
func (w *watch) about(n *hostNode, fd int) (dir *hostNode, seen int, name string, ok bool) {
	if n.id.kind == unix.S_IFDIR {
		seen, ok = w.over(n, fd)
		return n, seen, "", ok
	}
	name, up := n.Parent()
	if up == nil || n.isWritten() {
		return nil, 0, "", false
	}
	dir, ok = up.Operations().(*hostNode)
	open := n.isOpen()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !ok || dir.watched.wd == 0 || open && dir.watched.kept[name] != n.EmbeddedInode() {
		return nil, 0, "", false
	}
	return dir, dir.watched.seen, name, true
}

// fresh reports whether the kernel was told lately of the file that is called
// name in the directory n, and keeps that: it is not to be told again.
func (w *watch) fresh(n *hostNode, name string) bool {
	w.mu.Lock()
	in := n.watched.kept[name]
	w.mu.Unlock()
	if in == nil || in.Mode() == unix.S_IFDIR {
		return false
	}
	file := in.Operations().(*hostNode)
	file.mu.Lock()
	defer file.mu.Unlock()
	return time.Since(file.told) < keep/2
}

// keepEntry has the kernel keep what was found in a directory that is watched.
// A directory has to be watched itself before it is asked what it is like.
// A file that is open for writing may be mapped, and changes untold.
func (n *hostNode) keepEntry(out *gofuse.EntryOut) {
	if n.id.kind == unix.S_IFDIR {
		out.SetEntryTimeout(keepDirs)
		return
	}
	out.SetEntryTimeout(keep)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.writers == 0 {
		out.SetAttrTimeout(keep)
		n.told = time.Now()
	}
}

// calm reports whether a file may be kept. One with several names changes by
// any of them, and where a link leads depends on more than itself.
func calm(a *gofuse.Attr) bool {
	if a.Nlink > 1 && !a.IsDir() || a.IsSymlink() {
		return false
	}
	return time.Since(time.Unix(int64(a.Ctime), int64(a.Ctimensec))) > unchanged
}
