package pack

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

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
	// file is told of each entry: its name in the archive, and in the open folder.
	file func(name string, dir int, base string, st *unix.Stat_t) error
}

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
	if err := w.file(f.Name, fd, ".", &st); err != nil {
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
	err := unix.Fstatat(int(dir.Fd()), base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil {
		err = w.file(name, int(dir.Fd()), base, &st)
	}
	if err != nil {
		return told(name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	below, relock, err := open(int(dir.Fd()), base, &st, unix.O_DIRECTORY)
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

// open opens the entry called base of a folder, which st is of. What its mode
// forbids our own user is allowed until the function is called.
func open(dir int, base string, st *unix.Stat_t, flags int) (*os.File, func(), error) {
	relock := func() {}
	flags |= unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, base, flags, 0)
	if errors.Is(err, unix.EACCES) {
		fd, relock, err = replica.Unlock(dir, base, st, flags)
	}
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENOENT):
		return nil, nil, errChanged
	case err != nil:
		return nil, nil, err
	}
	var now unix.Stat_t
	if err = unix.Fstat(fd, &now); err == nil && inodeOf(&now) != inodeOf(st) {
		err = errChanged
	}
	if err != nil {
		unix.Close(fd)
		relock()
		return nil, nil, err
	}
	*st = now
	return os.NewFile(uintptr(fd), base), relock, nil
}

// Count returns how much is in folders, and how many sockets, which stay.
func Count(ctx context.Context, folders ...Folder) (size Size, sockets int64, err error) {
	for _, f := range folders {
		seen := make(map[inode]bool)
		w := walk{ctx: ctx, omit: f.Omit, file: func(_ string, _ int, _ string, st *unix.Stat_t) error {
			kind := st.Mode & unix.S_IFMT
			if kind == unix.S_IFSOCK {
				sockets++
				return nil
			}
			size.Files++
			if kind == unix.S_IFREG && !(st.Nlink > 1 && seen[inodeOf(st)]) {
				size.Bytes += min(st.Size, st.Blocks*512)
				if st.Nlink > 1 {
					seen[inodeOf(st)] = true
				}
			}
			return nil
		}}
		if err := w.top(f); err != nil {
			return size, sockets, err
		}
	}
	return size, sockets, nil
}

// Folder adds a folder with all in it. Parts come in their order. Whenever a
// file has been read, still is asked whether all is still as it was.
func (a *Writer) Folder(ctx context.Context, f Folder, still func() error) error {
	if part, _, _ := strings.Cut(f.Name, "/"); part != a.part {
		a.part, a.seen = part, make(map[inode]string)
	}
	buf := make([]byte, 256<<10)
	w := walk{ctx: ctx, omit: f.Omit, file: func(name string, dir int, base string, st *unix.Stat_t) error {
		if st.Mode&unix.S_IFMT == unix.S_IFSOCK {
			return nil
		}
		if err := a.entry(ctx, name, dir, base, st, buf); err != nil {
			return err
		}
		return still()
	}}
	return w.top(f)
}

func (a *Writer) entry(ctx context.Context, name string, dir int, base string, st *unix.Stat_t, buf []byte) error {
	h := &tar.Header{
		Name: name, Mode: int64(st.Mode) & 0o7777, Uid: int(st.Uid), Gid: int(st.Gid), Format: tar.FormatPAX,
		ModTime: time.Unix(0, unix.TimespecToNsec(st.Mtim)),
	}
	if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if first := a.seen[inodeOf(st)]; first != "" {
			h.Typeflag, h.Linkname = tar.TypeLink, first
			return a.tar.WriteHeader(h)
		}
		a.seen[inodeOf(st)] = name
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return a.regular(ctx, h, dir, base, st, buf)
	case unix.S_IFDIR:
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	case unix.S_IFLNK:
		target := make([]byte, 4096)
		n, err := unix.Readlinkat(dir, base, target)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, string(target[:n])
	case unix.S_IFIFO:
		h.Typeflag = tar.TypeFifo
	case unix.S_IFCHR:
		if st.Rdev != 0 {
			return fmt.Errorf("%w: %s is a device", fs.ErrUnsupported, fs.Shorten(name))
		}
		h.Typeflag = tar.TypeChar
	default:
		return fmt.Errorf("%w: %s is a device", fs.ErrUnsupported, fs.Shorten(name))
	}
	if h.Typeflag == tar.TypeDir {
		f, relock, err := open(dir, base, st, unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		defer relock()
		defer f.Close()
		h.PAXRecords = attributes(f, path.Clean(name))
	}
	return a.tar.WriteHeader(h)
}

func (a *Writer) regular(ctx context.Context, h *tar.Header, dir int, base string, st *unix.Stat_t, buf []byte) error {
	f, relock, err := open(dir, base, st, 0)
	if err != nil {
		return err
	}
	defer relock()
	defer f.Close()
	h.Typeflag, h.Size = tar.TypeReg, st.Size
	h.ModTime = time.Unix(0, unix.TimespecToNsec(st.Mtim))
	h.PAXRecords = attributes(f, h.Name)
	var pieces []extent
	if st.Size > st.Blocks*512 {
		if pieces, err = extents(f, st.Size); err != nil {
			return err
		}
	}
	if pieces != nil {
		if h.PAXRecords == nil {
			h.PAXRecords = make(map[string]string)
		}
		h.PAXRecords[sparseRecord] = formatExtents(st.Size, pieces)
		h.Size = 0
		for _, e := range pieces {
			h.Size += e.len
		}
	}
	if err := a.tar.WriteHeader(h); err != nil {
		return err
	}
	if pieces == nil {
		pieces = []extent{{0, st.Size}}
	}
	for _, e := range pieces {
		if _, err = copying(ctx, a.tar, io.NewSectionReader(f, e.off, e.len), e.len, buf); err != nil {
			break
		}
	}
	if err == io.ErrUnexpectedEOF {
		return errChanged
	}
	if err != nil {
		return err
	}
	var now unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &now); err != nil {
		return err
	}
	if now.Size != st.Size || now.Mtim != st.Mtim {
		return errChanged
	}
	return nil
}
