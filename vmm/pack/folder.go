package pack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"hutch/fs"
	"hutch/vmm/replica"
)

// A Folder is a folder of the host that goes into an archive.
type Folder struct {
	Name string // in the archive: a part, or below one
	Dir  string
	Omit func(name string) bool // by their path in it, what of its files is not taken; nil: all are
}

// maxDepth is how deep folders may lie in each other.
const maxDepth = 255

type inode struct{ dev, ino uint64 }

func inodeOf(st *unix.Stat_t) inode { return inode{uint64(st.Dev), uint64(st.Ino)} }

// A walk goes over a folder, and tells of its files in the order of the archive.
// It follows no link.
type walk struct {
	ctx  context.Context
	omit func(name string) bool
	skip int // of the beginning of names, for omit
	file func(entry) error
}

// An entry is what a walk comes to.
type entry struct {
	name string // in the archive
	dir  int    // the open folder that it is in
	base string // its name there
	st   *unix.Stat_t
}

func (e entry) kind() uint32 { return uint32(e.st.Mode & unix.S_IFMT) }

func (w *walk) top(f Folder) error {
	fd, err := unix.Open(f.Dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: f.Dir, Err: err}
	}
	dir := os.NewFile(uintptr(fd), f.Dir)
	defer dir.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if err := w.file(entry{f.Name, fd, ".", &st}); err != nil {
		return told(f.Name, err)
	}
	w.skip = len(f.Name) + 1
	return w.folder(f.Name, dir, 1)
}

func (w *walk) folder(name string, dir *os.File, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%w: %s: folders lie more than %d deep in each other", fs.ErrUnsupported, fs.Shorten(name), maxDepth)
	}
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("%s: %w", fs.Shorten(name), err)
	}
	slices.Sort(names)
	for _, base := range names {
		if w.ctx.Err() != nil {
			return context.Cause(w.ctx)
		}
		full := name + "/" + base
		if w.omit != nil && w.omit(full[w.skip:]) {
			continue
		}
		if err := w.entry(full, dir, base, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) entry(name string, dir *os.File, base string, depth int) error {
	var st unix.Stat_t
	e := entry{name, int(dir.Fd()), base, &st}
	err := unix.Fstatat(e.dir, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil {
		err = w.file(e)
	}
	if err != nil {
		return told(name, err)
	}
	if e.kind() != unix.S_IFDIR {
		return nil
	}
	below, relock, err := e.open(unix.O_DIRECTORY)
	if err != nil {
		return told(name, err)
	}
	defer relock()
	defer below.Close()
	return w.folder(name, below, depth+1)
}

// told returns err with the name of the file, unless it is of the archive itself.
func told(name string, err error) error {
	var n unix.Errno
	if errors.As(err, &n) || errors.Is(err, errChanged) {
		return fmt.Errorf("%s: %w", fs.Shorten(name), err)
	}
	return err
}

// errChanged is returned when a file does not stay as it is while it is read.
var errChanged = fmt.Errorf("%w: it changed while it was packed: pack it again", fs.ErrBusy)

// open opens the entry, and looks at it again. What its mode forbids our own user
// is allowed until the function is called.
func (e entry) open(flags int) (*os.File, func(), error) {
	relock := func() {}
	flags |= unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat(e.dir, e.base, flags, 0)
	if errors.Is(err, unix.EACCES) {
		fd, relock, err = replica.Unlock(e.dir, e.base, e.st, flags)
	}
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENOENT):
		return nil, nil, errChanged
	case err != nil:
		return nil, nil, err
	}
	var now unix.Stat_t
	if err = unix.Fstat(fd, &now); err == nil && inodeOf(&now) != inodeOf(e.st) {
		err = errChanged
	}
	if err != nil {
		unix.Close(fd)
		relock()
		return nil, nil, err
	}
	*e.st = now
	return os.NewFile(uintptr(fd), e.base), relock, nil
}

// Count returns how much is in a folder, and how many sockets, which stay.
func Count(ctx context.Context, f Folder) (size Size, sockets int64, err error) {
	seen := make(map[inode]bool)
	w := walk{ctx: ctx, omit: f.Omit, file: func(e entry) error {
		if e.kind() == unix.S_IFSOCK {
			sockets++
			return nil
		}
		size.Files++
		if e.kind() == unix.S_IFREG && !(e.st.Nlink > 1 && seen[inodeOf(e.st)]) {
			size.Bytes += min(e.st.Size, e.st.Blocks*512)
			if e.st.Nlink > 1 {
				seen[inodeOf(e.st)] = true
			}
		}
		return nil
	}}
	err = w.top(f)
	return size, sockets, err
}
