package layer

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"hutch/fs"
)

const (
	maxDepth = 255 // folders in a name, also after its links are followed
	maxHops  = 40  // links followed for one name
)

// A tree is a folder that files are made in, by names as the layer has them.
// Links in a name are followed as they would be if the folder were the root;
// after that each name is free of links, and os.Root sees that it stays so.
type tree struct {
	root *os.Root

	// The folder that was last worked in: names come sorted by folder.
	last  string // as in the layer
	place *folder

	told func(dir string) error // is told of each folder made on the way
}

// A folder is an open folder of a tree.
type folder struct {
	path string // free of links
	root *os.Root
	file *os.File
}

func openTree(dir string) (*tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &tree{root: root, told: func(string) error { return nil }}, nil
}

func (t *tree) close() {
	t.leave()
	t.root.Close()
}

// leave forgets the last folder: it may be one that goes.
func (t *tree) leave() {
	if t.place != nil {
		t.place.close()
		t.place = nil
	}
}

func openFolder(in *os.Root, name, at string) (*folder, error) {
	root, err := in.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	file, err := root.Open(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	return &folder{at, root, file}, nil
}

func (f *folder) close() {
	f.file.Close()
	f.root.Close()
}

func (f *folder) fd() int { return int(f.file.Fd()) }

// clean returns name as a path from the root of the image, "." for that
// itself.
func clean(name string) (string, error) {
	p := path.Clean(strings.TrimLeft(name, "/"))
	switch {
	case p == ".." || strings.HasPrefix(p, "../"):
		return "", fmt.Errorf("%w: it leaves the image", fs.ErrInvalid)
	case strings.IndexByte(p, 0) >= 0:
		return "", fmt.Errorf("%w: a NUL is in the name", fs.ErrInvalid)
	case strings.Count(p, "/") > maxDepth:
		return "", fmt.Errorf("%w: it is more than %d folders deep", fs.ErrInvalid, maxDepth)
	}
	return p, nil
}

// in returns the folder that name, cleaned, is in. Folders that are missing
// on the way to it are made if make is set.
func (t *tree) in(name string, make bool) (*folder, error) {
	dir := path.Dir(name)
	if t.place != nil && t.last == dir {
		return t.place, nil
	}
	at, err := t.resolve(dir, make)
	if err != nil {
		return nil, err
	}
	t.leave()
	f, err := openFolder(t.root, at, at)
	if err != nil {
		return nil, err
	}
	t.last, t.place = dir, f
	return f, nil
}

// resolve returns the folder that name leads to, free of links.
func (t *tree) resolve(name string, make bool) (string, error) {
	at, rest, hops := ".", name, 0
	for rest != "" {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, part)
		st, err := t.root.Lstat(next)
		switch {
		case errors.Is(err, os.ErrNotExist) && make:
			if err := t.imply(next); err != nil {
				return "", err
			}
			at = next
		case err != nil:
			return "", err
		case st.IsDir():
			at = next
		case st.Mode().Type() == os.ModeSymlink:
			target, err := t.root.Readlink(next)
			if err != nil {
				return "", err
			}
			if hops++; hops > maxHops {
				return "", fmt.Errorf("%w: %q: too many links", fs.ErrInvalid, fs.Shorten(name))
			}
			if strings.HasPrefix(target, "/") {
				at = "."
			}
			rest = target + "/" + rest
		default:
			return "", fmt.Errorf("%w: %q passes through a file", fs.ErrInvalid, fs.Shorten(name))
		}
	}
	return at, nil
}

// find returns where name leads, free of links but for itself, and what is there.
func (t *tree) find(name string) (at string, st os.FileInfo, err error) {
	dir, err := t.resolve(path.Dir(name), false)
	if err != nil {
		return name, nil, err
	}
	at = path.Join(dir, path.Base(name))
	st, err = t.root.Lstat(at)
	return at, st, err
}

// link makes name, which is in f, a hard link to target, free of links.
func (t *tree) link(f *folder, name, target string) error {
	base := path.Base(name)
	at := path.Join(f.path, base)
	if at == target {
		return nil
	}
	if err := t.vacate(f, base); err != nil {
		return err
	}
	return t.root.Link(target, at)
}

// imply makes a folder that names pass through.
func (t *tree) imply(dir string) error {
	if strings.Count(dir, "/") > maxDepth {
		return fmt.Errorf("%w: it is more than %d folders deep", fs.ErrInvalid, maxDepth)
	}
	if err := t.told(dir); err != nil {
		return err
	}
	return t.root.Mkdir(dir, 0o755)
}

// vacate removes what stands at name in f, with all below it.
func (t *tree) vacate(f *folder, name string) error {
	st, err := f.root.Lstat(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !st.IsDir():
		return f.root.Remove(name)
	}
	err = f.root.RemoveAll(name)
	if t.place == f {
		t.last = path.Join("..", t.last) // which no name is in: links may lead elsewhere now
	}
	return err
}

// An attr is what is kept of a file besides its contents.
type attr struct {
	mode     os.FileMode
	uid, gid int
	mtime    unix.Timespec
}

// set gives the entry name of f its attributes, except for a link's mode.
func (f *folder) set(name string, a attr) error {
	if superuser() {
		// Where users are mapped, not all exist.
		if err := f.root.Lchown(name, a.uid, a.gid); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) {
			return err
		}
	} else {
		a.mode &^= os.ModeSetuid | os.ModeSetgid
		if a.mode.IsDir() {
			a.mode |= 0o700
		}
	}
	if a.mode.Type() != os.ModeSymlink {
		if err := f.root.Chmod(name, a.mode); err != nil { // after the owner, which clears setuid
			return err
		}
	}
	return unix.UtimesNanoAt(f.fd(), name, []unix.Timespec{a.mtime, a.mtime}, unix.AT_SYMLINK_NOFOLLOW)
}

// attrOf returns the attributes of a file that is there.
func attrOf(st os.FileInfo) attr {
	a := attr{mode: st.Mode()}
	a.mtime = unix.NsecToTimespec(st.ModTime().UnixNano())
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		a.uid, a.gid = int(s.Uid), int(s.Gid)
	}
	return a
}
