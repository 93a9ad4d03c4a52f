package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"hutch/fs"
)

// A file is the place of a client's file, which may be empty: its folder, held
// open, so that what is checked is what is changed.
type file struct {
	c      *Client
	folder *os.Root
	name   string // in the folder
	path   string // where a link leads, if the client's is one
}

// A version is what was found in a file.
type version struct {
	text []byte
	info os.FileInfo // nil: there was none
}

// find finds the file of a client. It may be a link of the user's to a file of
// the user's own, as people have whose files are kept elsewhere: then that is
// the file. With fill, its folder is made as the client makes it when it needs it.
func (h *Home) find(c *Client, fill bool) (*file, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	path := filepath.Join(h.Dir, c.path())
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink != 0 {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return nil, fmt.Errorf("%w: %s is a link that leads nowhere", fs.ErrInvalid, c.shown())
		}
		path = real
	} else if errors.Is(err, os.ErrNotExist) {
		if !h.has(c) {
			return nil, fmt.Errorf("%w: client %s is not here: %s has no %s", fs.ErrNotExist, c.Name, h.Dir, c.mark())
		}
		if older := filepath.Join(h.Dir, c.older); fill && c.older != "" {
			if _, err := os.Lstat(older); err == nil {
				return nil, fmt.Errorf("%w: %s reads ~/%s, and would not with %s there: move to that first", fs.ErrUnsupported, c.Name, c.older, c.shown())
			}
		}
		if fill {
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return nil, err
			}
		}
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	folder, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	f := &file{c: c, folder: folder, name: filepath.Base(path), path: filepath.Join(dir, filepath.Base(path))}
	info, err := folder.Stat(".")
	if err == nil && !own(info) {
		err = fmt.Errorf("%w: the folder of %s, %s, belongs to another user", fs.ErrPermission, c.shown(), dir)
	}
	if err != nil {
		folder.Close()
		return nil, err
	}
	return f, nil
}

// has says whether the client is there.
func (h *Home) has(c *Client) bool {
	for _, name := range []string{c.path(), c.mark()} {
		if _, err := os.Lstat(filepath.Join(h.Dir, name)); err == nil {
			return true
		}
	}
	return false
}

func (f *file) close() { f.folder.Close() }

// own says whether a file is of the user that this process runs as.
func own(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// read returns what is in the file. It is an error if that is no file of the
// user's own, or more than the format has.
func (f *file) read() (version, error) {
	info, err := f.folder.Lstat(f.name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return version{}, nil
	case err != nil:
		return version{}, err
	case !info.Mode().IsRegular():
		return version{}, fmt.Errorf("%w: %s is no file", fs.ErrInvalid, f.path)
	case !own(info):
		return version{}, fmt.Errorf("%w: %s belongs to another user", fs.ErrPermission, f.path)
	case info.Size() > int64(f.c.form.max):
		return version{}, fmt.Errorf("%w: %s has %d bytes: at most %d", fs.ErrTooLarge, f.c.shown(), info.Size(), f.c.form.max)
	}
	r, err := f.folder.OpenFile(f.name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return version{}, err
	}
	defer r.Close()
	is, err := r.Stat()
	if err != nil {
		return version{}, err
	}
	if !os.SameFile(info, is) {
		return version{}, errChanged
	}
	text, err := io.ReadAll(io.LimitReader(r, int64(f.c.form.max)+1))
	return version{text, is}, err
}

// errChanged is returned when somebody else changed the file meanwhile.
var errChanged = errors.New("it changes all the time")

// fresh ends the name of a file's next version, while it is written.
const fresh = ".hutch-new"

// replace puts text in the place of what was read, in one step, with the mode
// and the group that it had. It fails, and changes nothing, if the file is not
// what was read any more.
func (f *file) replace(was version, text []byte, mode os.FileMode) error {
	if err := was.writable(f.c); err != nil {
		return err
	}
	f.folder.Remove(f.name + fresh) // of one that was killed
	w, err := f.folder.OpenFile(f.name+fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.folder.Remove(f.name + fresh) // if it is still there
	_, err = w.Write(text)
	if err == nil && was.info != nil {
		if err = w.Chown(-1, int(was.info.Sys().(*syscall.Stat_t).Gid)); err != nil {
			err = fmt.Errorf("group of %s: %w", f.c.shown(), err)
		}
	}
	if err == nil {
		err = w.Chmod(mode)
	}
	if err == nil {
		err = w.Sync()
	}
	if err = errors.Join(err, w.Close()); err == nil {
		err = f.unchanged(was)
	}
	if err == nil {
		err = f.folder.Rename(f.name+fresh, f.name)
	}
	if err != nil {
		return err
	}
	return f.sync()
}

// sweep removes what one that was killed left of a change.
func (f *file) sweep(ctx context.Context) {
	info, err := f.folder.Lstat(f.name + fresh)
	if err != nil || !info.Mode().IsRegular() || !own(info) {
		return
	}
	if unlock, err := f.lock(ctx); err == nil {
		f.folder.Remove(f.name + fresh)
		unlock()
	}
}

// remove removes what was read, if the file is still that.
func (f *file) remove(was version) error {
	if err := was.writable(f.c); err != nil {
		return err
	}
	if err := f.unchanged(was); err != nil || was.info == nil {
		return err
	}
	return errors.Join(f.folder.Remove(f.name), f.sync())
}

// writable says why what was read is not to be changed.
func (v version) writable(c *Client) error {
	if v.info != nil && v.info.Mode().Perm()&0o200 == 0 {
		return fmt.Errorf("%w: %s is read-only: chmod u+w it if it is to be changed", fs.ErrPermission, c.shown())
	}
	return nil
}

// unchanged says whether the file is what was read.
func (f *file) unchanged(was version) error {
	is, err := f.folder.Lstat(f.name)
	switch {
	case errors.Is(err, os.ErrNotExist) && was.info == nil:
		return nil
	case err == nil && was.info != nil && fs.SameFile(was.info, is):
		return nil
	case err == nil || errors.Is(err, os.ErrNotExist):
		return errChanged
	}
	return err
}

func (f *file) sync() error {
	d, err := f.folder.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// attempts is how often a change is tried that somebody else's came before.
const attempts = 10

// change replaces the text of a client's file by what edit makes of it, while
// no other hutch does. Nothing is written if that is what was there. With fill
// the file's folder is made, where the client is there and that is not.
func (h *Home) change(ctx context.Context, c *Client, fill bool, edit func(text []byte) ([]byte, error)) error {
	return h.locked(ctx, c, fill, func(f *file) (err error) {
		for range attempts {
			if err = h.changeOnce(ctx, f, edit); !errors.Is(err, errChanged) {
				return err
			}
		}
		return fmt.Errorf("%w: %s: %w: end who writes it, and try again", fs.ErrBusy, c.shown(), err)
	})
}

// locked does something to a client's file while no other hutch does. Fill is that of find.
func (h *Home) locked(ctx context.Context, c *Client, fill bool, do func(*file) error) error {
	f, err := h.find(c, fill)
	if err != nil {
		return err
	}
	defer f.close()
	unlock, err := f.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return do(f)
}

func (h *Home) changeOnce(ctx context.Context, f *file, edit func(text []byte) ([]byte, error)) error {
	end, err := turn(ctx)
	if err != nil {
		return err
	}
	defer end()
	was, err := f.read()
	if err != nil {
		return err
	}
	text, err := edit(was.text)
	if err != nil || bytes.Equal(text, was.text) {
		return err
	}
	if err := was.writable(f.c); err != nil {
		return err
	}
	mode := os.FileMode(0o600)
	if was.info != nil {
		mode = was.info.Mode().Perm()
	}
	if err := h.keep(f, was, text); err != nil {
		return err
	}
	return f.replace(was, text, mode)
}
