package pack

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs"
)

// Folder adds a folder with all in it. Parts come in their order. Whenever a
// file has been read, still is asked whether all is still as it was.
func (a *Writer) Folder(ctx context.Context, f Folder, still func() error) error {
	if part, _, _ := strings.Cut(f.Name, "/"); part != a.part {
		a.part, a.seen = part, make(map[inode]string)
	}
	w := walk{ctx: ctx, omit: f.Omit, file: func(e entry) error {
		if e.kind() == unix.S_IFSOCK {
			return nil
		}
		if err := a.entry(ctx, e); err != nil {
			return err
		}
		return still()
	}}
	return w.top(f)
}

func (a *Writer) entry(ctx context.Context, e entry) error {
	h := &tar.Header{
		Name: e.name, Mode: int64(e.st.Mode) & 0o7777, Uid: int(e.st.Uid), Gid: int(e.st.Gid), Format: tar.FormatPAX,
		ModTime: modTime(e.st),
	}
	if e.st.Nlink > 1 && e.kind() != unix.S_IFDIR {
		if first := a.seen[inodeOf(e.st)]; first != "" {
			h.Typeflag, h.Linkname = tar.TypeLink, first
			return a.tar.WriteHeader(h)
		}
		a.seen[inodeOf(e.st)] = e.name
	}
	switch e.kind() {
	case unix.S_IFREG:
		return a.regular(ctx, h, e)
	case unix.S_IFDIR:
		return a.directory(h, e)
	}
	if err := e.describe(h); err != nil {
		return err
	}
	return a.tar.WriteHeader(h)
}

func modTime(st *unix.Stat_t) time.Time { return time.Unix(0, unix.TimespecToNsec(st.Mtim)) }

// describe says in a header what the entry is that is neither file nor folder.
func (e entry) describe(h *tar.Header) error {
	switch e.kind() {
	case unix.S_IFLNK:
		target := make([]byte, 4096)
		n, err := unix.Readlinkat(e.dir, e.base, target)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, string(target[:n])
		return nil
	case unix.S_IFIFO:
		h.Typeflag = tar.TypeFifo
		return nil
	case unix.S_IFCHR:
		if e.st.Rdev == 0 {
			h.Typeflag = tar.TypeChar
			return nil
		}
	}
	return fmt.Errorf("%w: %s is a device", fs.ErrUnsupported, fs.Shorten(e.name))
}

func (a *Writer) directory(h *tar.Header, e entry) error {
	f, relock, err := e.open(unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer relock()
	defer f.Close()
	h.Typeflag, h.Name, h.PAXRecords = tar.TypeDir, e.name+"/", attributes(f, path.Clean(e.name))
	return a.tar.WriteHeader(h)
}

func (a *Writer) regular(ctx context.Context, h *tar.Header, e entry) error {
	f, relock, err := e.open(0)
	if err != nil {
		return err
	}
	defer relock()
	defer f.Close()
	h.Typeflag, h.Size, h.ModTime, h.PAXRecords = tar.TypeReg, e.st.Size, modTime(e.st), attributes(f, h.Name)
	pieces := []extent{{0, e.st.Size}}
	if e.st.Size > e.st.Blocks*512 {
		if pieces, err = holed(h, f); err != nil {
			return err
		}
	}
	if err := a.tar.WriteHeader(h); err != nil {
		return err
	}
	for _, p := range pieces {
		_, err := copying(ctx, a.tar, io.NewSectionReader(f, p.off, p.len), p.len, a.buf)
		if err == io.ErrUnexpectedEOF {
			return errChanged
		}
		if err != nil {
			return err
		}
	}
	var now unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &now); err != nil {
		return err
	}
	if now.Size != e.st.Size || now.Mtim != e.st.Mtim {
		return errChanged
	}
	return nil
}

// holed returns where the data of a file with holes is, and has its header say that.
func holed(h *tar.Header, f *os.File) ([]extent, error) {
	size := h.Size
	pieces, err := extents(f, size)
	if err != nil {
		return nil, err
	}
	if pieces == nil {
		return []extent{{0, size}}, nil
	}
	if h.PAXRecords == nil {
		h.PAXRecords = make(map[string]string)
	}
	h.PAXRecords[sparseRecord] = formatExtents(size, pieces)
	h.Size = 0
	for _, p := range pieces {
		h.Size += p.len
	}
	return pieces, nil
}
