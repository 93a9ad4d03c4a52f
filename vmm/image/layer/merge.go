package layer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"hutch/fs"
)

// Merge puts the unpacked layers, the lowest first, into the folder to, which
// must be there and empty. Nobody may write to its files: large ones are hard links
// to those of the layers where the file system shares no blocks.
func Merge(ctx context.Context, layers []string, to string) error {
	t, err := openTree(to)
	if err != nil {
		return err
	}
	defer t.close()
	for _, dir := range layers {
		if err := t.merge(ctx, dir); err != nil {
			return fmt.Errorf("layer %s: %w", filepath.Base(dir), err)
		}
	}
	return nil
}

// A merger puts one layer over those below it.
type merger struct {
	*tree
	ctx     context.Context
	implied map[string]bool
	copied  map[[2]uint64]string // files with more names than one, by device and inode
	apart   bool                 // the file system shares no blocks
}

func (t *tree) merge(ctx context.Context, dir string) error {
	t.leave()
	notes, err := Load(dir)
	if err != nil {
		return err
	}
	for _, p := range notes.Opaque {
		if err := t.empty(p); err != nil {
			return err
		}
	}
	for _, p := range notes.Whiteouts {
		if err := t.remove(p); err != nil {
			return err
		}
	}
	from, err := os.OpenRoot(filepath.Join(dir, "tree"))
	if err != nil {
		return err
	}
	defer from.Close()
	m := &merger{tree: t, ctx: ctx, implied: make(map[string]bool, len(notes.Implied)), copied: make(map[[2]uint64]string)}
	for _, p := range notes.Implied {
		m.implied[p] = true
	}
	src, err := openFolder(from, ".", ".")
	if err != nil {
		return err
	}
	defer src.close()
	if err := m.dir(src, "."); err != nil {
		return err
	}
	for _, l := range notes.Links {
		if err := t.lateLink(l[0], l[1]); err != nil {
			return err
		}
	}
	return nil
}

// remove removes the file called name, if there is one.
func (t *tree) remove(name string) error {
	f, err := t.in(name, false)
	if err == nil {
		err = t.vacate(f, path.Base(name))
	}
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return nil // a name that leads nowhere
	}
	return err
}

// empty removes what is in the folder called name, if it is one.
func (t *tree) empty(name string) error {
	p, st, err := t.find(name)
	if err != nil || !st.IsDir() {
		return nil
	}
	t.leave()
	f, err := openFolder(t.root, p, p)
	if err != nil {
		return err
	}
	defer f.close()
	names, err := f.file.Readdirnames(-1)
	for _, n := range names {
		err = errors.Join(err, f.root.RemoveAll(n))
	}
	return err
}

// dir puts what is in the folder src of the layer into the folder at of the
// tree, which is there.
func (m *merger) dir(src *folder, at string) error {
	if m.ctx.Err() != nil {
		return context.Cause(m.ctx)
	}
	dst, err := openFolder(m.root, at, at)
	if err != nil {
		return err
	}
	defer dst.close()
	mine := src.file
	if m.implied[src.path] {
		mine = dst.file // it stays as it was
	}
	st, err := mine.Stat()
	if err != nil {
		return err
	}
	names, err := src.file.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if err := m.entry(src, dst, name); err != nil {
			return err
		}
	}
	return dst.set(".", attrOf(st))
}

func (m *merger) entry(src, dst *folder, name string) error {
	st, err := src.root.Lstat(name)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		if err := m.vacate(dst, name); err != nil {
			return err
		}
		return m.give(src, dst, name, st)
	}
	sub, err := openFolder(src.root, name, path.Join(src.path, name))
	if err != nil {
		return err
	}
	defer sub.close()
	at, err := m.place(dst, name, m.implied[sub.path])
	if err != nil {
		return err
	}
	return m.dir(sub, at)
}

// place returns where the folder called name goes: to the one that is there,
// or to where a link leads if the layer only passes through it.
func (m *merger) place(dst *folder, name string, implied bool) (string, error) {
	at := path.Join(dst.path, name)
	st, err := dst.root.Lstat(name)
	switch {
	case err == nil && st.IsDir():
		return at, nil
	case err == nil && implied && st.Mode().Type() == os.ModeSymlink:
		return m.resolve(at, true)
	}
	if err := m.vacate(dst, name); err != nil {
		return "", err
	}
	return at, dst.root.Mkdir(name, 0o755)
}

// small is the size up to which a file that cannot share its blocks is copied: programs that
// look how many names a file has, as cron does, look at such files.
const small = 64 << 10

// give makes the file of src called name one of dst too. It has as many names there as
// in the layer: a link to the layer's would be one more.
func (m *merger) give(src, dst *folder, name string, st os.FileInfo) error {
	var key [2]uint64
	if s, ok := st.Sys().(*syscall.Stat_t); ok && s.Nlink > 1 {
		key = [2]uint64{uint64(s.Dev), uint64(s.Ino)}
	}
	if first := m.copied[key]; first != "" {
		return m.root.Link(first, path.Join(dst.path, name))
	}
	regular := st.Mode().IsRegular()
	if regular && (!m.apart || st.Size() <= small) {
		err := m.duplicate(src, dst, name, st, key, st.Size() <= small)
		if err != errApart {
			return err
		}
	}
	err := unix.Linkat(src.fd(), name, dst.fd(), name, 0)
	for _, cannot := range []error{unix.EMLINK, unix.EPERM, unix.EOPNOTSUPP, unix.ENOSYS} {
		if errors.Is(err, cannot) {
			return m.duplicate(src, dst, name, st, key, true)
		}
	}
	return err
}

// errApart is returned for a copy that would share no blocks.
var errApart = errors.New("the file system shares no blocks")

// duplicate copies a file. Where the copy would share no blocks, it is errApart unless whole
// is true.
func (m *merger) duplicate(src, dst *folder, name string, st os.FileInfo, key [2]uint64, whole bool) error {
	if st.Mode().Type() == os.ModeSymlink {
		target, err := src.root.Readlink(name)
		if err != nil {
			return err
		}
		if err := dst.root.Symlink(target, name); err != nil {
			return err
		}
		return dst.set(name, attrOf(st))
	}
	in, err := src.root.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := dst.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	if m.apart || st.Size() > 0 && clone(out, in) != nil {
		if m.apart = true; !whole {
			return cmp.Or(dst.root.Remove(name), errApart)
		}
		if _, err := copySparse(out, io.Reader(in)); err != nil {
			return err
		}
	}
	if key != [2]uint64{} {
		m.copied[key] = path.Join(dst.path, name)
	}
	if err := dst.set(name, attrOf(st)); err != nil {
		return err
	}
	if c := getCapability(in); c != "" && superuser() {
		return setCapability(out, c)
	}
	return nil
}

// lateLink makes a hard link to a file of a layer below.
func (t *tree) lateLink(name, target string) error {
	t.leave()
	target, st, err := t.find(target)
	if err != nil || st.IsDir() {
		return fmt.Errorf("%w: hard link %q to %q, which is no file of the image", fs.ErrInvalid, fs.Shorten(name), fs.Shorten(target))
	}
	f, err := t.in(name, true)
	if err != nil {
		return err
	}
	return t.link(f, name, target)
}

// Furnish makes the folders called names in root, where they are missing,
// so that nothing has to be made in an image to mount on.
func Furnish(root string, names ...string) error {
	t, err := openTree(root)
	if err != nil {
		return err
	}
	defer t.close()
	for _, name := range names {
		if _, err := t.resolve(name, true); err != nil {
			return fmt.Errorf("image has no place for /%s: %w", name, err)
		}
	}
	return nil
}
