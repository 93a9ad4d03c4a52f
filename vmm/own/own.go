// Package own tells what of a host is the service's own, so that no guest is shown it:
// whoever has the socket or the state folder of hutchd can do all that hutchd can.
//
// A folder is known by device and inode, and by its place in its file system: a bind
// mount shows the same folder under another name, and what is below it.
package own

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"hutch/fs"
	"hutch/fs/mountinfo"
	"hutch/profiles"
)

// An Item is something of the service's own.
type Item struct {
	What     string // as it is called in an error: "the state of hutchd"
	Path     string // absolute; it need not be there
	Readable bool   // a guest may see it, if it cannot write there
}

// A List is what is the service's own.
type List struct {
	items []Item
	was   []spot // where they were at New: something may be mounted over one since
}

// New returns the list of items.
func New(items []Item) *List {
	l := &List{items: items}
	table, _ := mountinfo.Read(mountinfo.Own)
	for _, i := range items {
		l.was = append(l.was, find(table, i.Path))
	}
	return l
}

// A spot is where in a file system something is.
type spot struct {
	device string // "" where no table tells
	path   string
	line   []os.FileInfo // it, if it is there, and the folders above it
	there  bool
}

// find returns where an absolute path is or, of what is not there, would be.
func find(table []mountinfo.Mount, path string) spot {
	s := spot{there: true}
	rest := ""
	at, err := filepath.EvalSymlinks(path)
	for dir := path; err != nil && dir != "/"; {
		s.there = false
		rest = filepath.Join(filepath.Base(dir), rest)
		dir = filepath.Dir(dir)
		at, err = filepath.EvalSymlinks(dir)
	}
	if id := mountID(at); id != "" {
		for _, m := range table {
			if rel, err := filepath.Rel(m.Dir, at); m.ID == id && err == nil {
				s.device, s.path = m.Device, filepath.Join(m.Root, rel, rest)
			}
		}
	}
	for dir := at; ; dir = filepath.Dir(dir) {
		if fi, err := os.Stat(dir); err == nil {
			s.line = append(s.line, fi)
		}
		if dir == "/" {
			return s
		}
	}
}

// has says whether o is at s or below it, by whatever names.
func (s spot) has(o spot) bool {
	if s.there && len(s.line) > 0 {
		for _, fi := range o.line {
			if os.SameFile(s.line[0], fi) {
				return true
			}
		}
	}
	return s.device != "" && s.device == o.device && profiles.Within(s.path, o.path)
}

// Refuse says why a guest may not see the folder dir, which is there: something of the
// service's own is above, at or below it. What is Readable is refused only for writing.
func (l *List) Refuse(dir string, readOnly bool) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	return l.refuse("mount "+dir, real, readOnly)
}

// RefuseFile says why nobody may be given what is in an open file of the host, by whatever
// path it was opened: it is the service's own.
func (l *List) RefuseFile(f *os.File) error {
	real, err := placeOf(f)
	if err != nil {
		return err
	}
	is, err := f.Stat()
	if err != nil {
		return err
	}
	if there, err := os.Stat(real); err != nil || !os.SameFile(there, is) { // as in /proc/PID/root
		return fmt.Errorf("%w: %s is not where hutchd sees it, or was moved just now", fs.ErrNotPermitted, f.Name())
	}
	return l.refuse("file "+f.Name(), real, true)
}

// refuse says why what is at real, a path without links, is not to be shown. The error calls
// it name.
func (l *List) refuse(name, real string, readOnly bool) error {
	table, err := mountinfo.Read(mountinfo.Own)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	shown := below(table, real)
	for i, item := range l.items {
		if readOnly && item.Readable {
			continue
		}
		for _, is := range []spot{find(table, item.Path), l.was[i]} {
			for _, s := range shown {
				if s.has(is) || is.there && is.has(s) {
					return item.refuse(name)
				}
			}
		}
	}
	if found, ok := l.mounted(table, real); ok {
		return found.refuse(name)
	}
	return nil
}

// below returns where a folder is, without links, and what is mounted below it, which
// guests see, too.
func below(table []mountinfo.Mount, dir string) []spot {
	list := []spot{find(table, dir)}
	for _, m := range table {
		if profiles.Within(dir, m.Dir) {
			list = append(list, spot{device: m.Device, path: m.Root})
		}
	}
	return list
}

// A View is how the host's folders lie at a moment. One goroutine uses it.
type View struct {
	table []mountinfo.Mount
	spots map[string][]spot // what is below a folder
}

// Look returns how they lie now.
func Look() *View {
	table, _ := mountinfo.Read(mountinfo.Own)
	return &View{table, make(map[string][]spot)}
}

// Shows says whether a folder shows another, by whatever name.
func (w *View) Shows(dir, other string) bool {
	for _, name := range []string{dir, other} {
		if w.spots[name] == nil {
			w.spots[name] = below(w.table, name)
		}
	}
	o := w.spots[other][0]
	return slices.ContainsFunc(w.spots[dir], func(s spot) bool { return s.has(o) })
}

func (i Item) refuse(name string) error {
	if i.Readable {
		return fmt.Errorf("%w: %s: no guest may write %s, %s: mount it for reading only", fs.ErrNotPermitted, name, i.What, i.Path)
	}
	return fmt.Errorf("%w: %s: no guest may have %s, %s", fs.ErrNotPermitted, name, i.What, i.Path)
}

// treeKind is what a mount table calls the file system that hutchd mounts.
const treeKind = "fuse.hutch"

// mounted returns what is of hutchd's own, by a mount table, that dir is in, or that is in
// dir: the tree, which a kernel that speaks 9P mounts by the socket, and the table of
// processes, in which whoever may do so reads and writes the memory of hutchd.
func (l *List) mounted(table []mountinfo.Mount, dir string) (found Item, ok bool) {
	for _, m := range table {
		if !profiles.Within(m.Dir, dir) && !profiles.Within(dir, m.Dir) {
			continue
		}
		switch {
		case m.Kind == treeKind, m.Kind == "9p" && l.isOwn(m.Source):
			return Item{What: "the tree of hutchd", Path: m.Dir}, true
		case m.Kind == "proc":
			return Item{What: "the process of hutchd", Path: m.Dir}, true
		}
	}
	return Item{}, false
}

// isOwn says whether path leads to an item of the list.
func (l *List) isOwn(path string) bool {
	fi, err := os.Stat(path)
	for _, i := range l.items {
		if own, oerr := os.Stat(i.Path); path == i.Path || err == nil && oerr == nil && os.SameFile(fi, own) {
			return true
		}
	}
	return false
}
