package layer

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs"
)

// Names with these say what a layer takes away of those below it.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
	aufs     = ".wh..wh." // notes of one file system to itself
)

// An unpacker makes the tree of one layer.
type unpacker struct {
	*tree
	budget  *Budget
	notes   Notes
	implied map[string]bool
	dirs    map[string]attr // by path free of links; set when all is there
}

// Unpack makes the folder dir, which must not be there, of the tar archive
// that r reads. What it has made when it fails is the caller's to remove.
func Unpack(ctx context.Context, r io.Reader, dir string, b *Budget) (Notes, error) {
	if err := os.MkdirAll(filepath.Join(dir, "tree"), 0o755); err != nil {
		return Notes{}, err
	}
	t, err := openTree(filepath.Join(dir, "tree"))
	if err != nil {
		return Notes{}, err
	}
	u := &unpacker{tree: t, budget: b, implied: make(map[string]bool), dirs: make(map[string]attr)}
	defer u.close()
	t.told = u.imply
	if err := u.entries(ctx, tar.NewReader(r)); err != nil {
		return u.notes, err
	}
	if err := u.finishDirs(); err != nil {
		return u.notes, err
	}
	u.notes.Implied = slices.Sorted(maps.Keys(u.implied))
	return u.notes, u.notes.save(dir)
}

func (u *unpacker) imply(dir string) error {
	u.implied[dir] = true
	return u.budget.Take(0, 1)
}

func (u *unpacker) entries(ctx context.Context, r *tar.Reader) error {
	u.implied["."] = true
	for {
		h, err := r.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return malformed(err)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case h.Typeflag == tar.TypeXGlobalHeader:
			continue
		}
		if err := u.budget.Take(h.Size, 1); err != nil {
			return err
		}
		u.notes.Entries++
		if err := u.entry(h, r); err != nil {
			return fmt.Errorf("entry %q: %w", fs.Shorten(h.Name), err)
		}
	}
}

// malformed returns err as one of the layer, if it is.
func malformed(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrFieldTooLong) {
		return fmt.Errorf("%w: %s", fs.ErrInvalid, strings.TrimPrefix(err.Error(), "archive/tar: "))
	}
	return err
}

func (u *unpacker) entry(h *tar.Header, r io.Reader) error {
	name, err := clean(h.Name)
	if err != nil {
		return err
	}
	if base := path.Base(name); strings.HasPrefix(base, whiteout) {
		return u.hide(path.Dir(name), base)
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink, tar.TypeGNUSparse:
	default:
		u.notes.Skipped++
		return nil
	}
	if name == "." {
		return u.top(h)
	}
	f, err := u.in(name, true)
	if err != nil {
		return err
	}
	base := path.Base(name)
	switch h.Typeflag {
	case tar.TypeDir:
		return u.dir(f, base, h)
	case tar.TypeLink:
		return u.hardLink(f, name, h.Linkname)
	}
	if err := u.vacate(f, base); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeSymlink {
		if err := f.root.Symlink(h.Linkname, base); err != nil {
			return err
		}
		return f.set(base, attrIn(h, os.ModeSymlink))
	}
	return u.file(f, base, h, r)
}

// top takes the attributes of the image's root.
func (u *unpacker) top(h *tar.Header) error {
	if h.Typeflag != tar.TypeDir {
		return fmt.Errorf("%w: the root of an image is a folder", fs.ErrInvalid)
	}
	delete(u.implied, ".")
	u.dirs["."] = attrIn(h, os.ModeDir)
	return nil
}

func (u *unpacker) dir(f *folder, base string, h *tar.Header) error {
	if st, err := f.root.Lstat(base); err != nil || !st.IsDir() {
		if err := u.vacate(f, base); err != nil {
			return err
		}
		if err := f.root.Mkdir(base, 0o700); err != nil {
			return err
		}
	}
	at := path.Join(f.path, base)
	delete(u.implied, at)
	u.dirs[at] = attrIn(h, os.ModeDir)
	return nil
}

func (u *unpacker) file(f *folder, base string, h *tar.Header, r io.Reader) error {
	out, err := f.root.OpenFile(base, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	n, err := copySparse(out, r)
	u.notes.Size += n
	if err != nil {
		return malformed(err)
	}
	if err := f.set(base, attrIn(h, 0)); err != nil {
		return err
	}
	if c := h.PAXRecords["SCHILY.xattr."+capability]; c != "" && superuser() {
		return setCapability(out, c)
	}
	return nil
}

// hardLink makes a hard link. One to a file that the layer does not have is made
// when there are layers below.
func (u *unpacker) hardLink(f *folder, name, to string) error {
	target, err := clean(to)
	if err != nil {
		return fmt.Errorf("hard link to %q: %w", fs.Shorten(to), err)
	}
	if target == name {
		return nil
	}
	target, st, err := u.find(target)
	switch {
	case errors.Is(err, os.ErrNotExist):
		u.notes.Links = append(u.notes.Links, [2]string{name, target})
		return nil
	case err != nil:
		return err
	case st.IsDir():
		return fmt.Errorf("%w: hard link to the folder %q", fs.ErrInvalid, fs.Shorten(to))
	}
	return u.link(f, name, target)
}

// hide notes what a whiteout says.
func (u *unpacker) hide(dir, base string) error {
	gone := strings.TrimPrefix(base, whiteout)
	switch {
	case base == opaque:
		u.notes.Opaque = append(u.notes.Opaque, dir)
	case strings.HasPrefix(base, aufs):
	case gone == "" || gone == "." || gone == "..":
		return fmt.Errorf("%w: whiteout of no file", fs.ErrInvalid)
	default:
		u.notes.Whiteouts = append(u.notes.Whiteouts, path.Join(dir, gone))
	}
	return nil
}

// finishDirs gives the folders their attributes, the deepest first.
func (u *unpacker) finishDirs() error {
	u.leave()
	paths := slices.Sorted(maps.Keys(u.dirs))
	slices.Reverse(paths)
	for _, p := range paths {
		if st, err := u.root.Lstat(p); err != nil || !st.IsDir() {
			continue // another entry took its place
		}
		if err := u.setAt(p, u.dirs[p]); err != nil {
			return err
		}
	}
	return nil
}

// setAt gives the file at p, free of links, its attributes.
func (t *tree) setAt(p string, a attr) error {
	f, err := openFolder(t.root, path.Dir(p), path.Dir(p))
	if err != nil {
		return err
	}
	defer f.close()
	return f.set(path.Base(p), a)
}

// attrIn returns the attributes that h says.
func attrIn(h *tar.Header, kind os.FileMode) attr {
	const kept = os.ModePerm | os.ModeSetuid | os.ModeSetgid | os.ModeSticky
	a := attr{mode: h.FileInfo().Mode()&kept | kind, uid: h.Uid, gid: h.Gid}
	a.mtime = timespec(h.ModTime)
	return a
}

// timespec returns t, or the beginning of time where t is none that files can have.
func timespec(t time.Time) unix.Timespec {
	if t.Year() < 1902 || t.Year() > 2261 {
		t = time.Unix(0, 0)
	}
	return unix.NsecToTimespec(t.UnixNano())
}
