package folder

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"strings"
	"sync"

	"hutch/fs"
)

// OpenWhole opens a folder of small files. What is written to one is stored at
// once, since most programs look at the error of a write and few at that of a
// close: as a whole and aside, and then takes the old one's place. A write that
// fails, as on a full disk, leaves the file what it was before that write. What
// is then written at the end is added to it, and is on the disk when the file is
// closed. A truncation leaves the file what it was, too, until something is
// written or the last who can write closes it.
func OpenWhole(dir, name string) (*Folder, error) {
	f, err := Open(dir, name)
	if err != nil {
		return nil, err
	}
	f.wholes = &wholes{open: map[string]*whole{}}
	list, _ := os.ReadDir(f.dir)
	for _, e := range list {
		if aside.MatchString(e.Name()) { // left by a process that was killed
			f.root.Remove(e.Name())
		}
	}
	return f, nil
}

// aside is what a file is called while it is stored. It is at the top of the
// folder, and is not listed.
var aside = regexp.MustCompile(`^\.new-[A-Z2-7]{26}$`)

// maxWhole is the length of the longest file of such a folder.
const maxWhole = 1 << 20

// Wholes are the files that are open for writing, by path.
type wholes struct {
	// mu guards what follows, also in each whole. It is held while one is
	// stored: who reads or writes another meanwhile waits for the disk.
	mu   sync.Mutex
	open map[string]*whole
}

// A whole is a file that is open for writing.
type whole struct {
	path    string // "" when it was removed
	text    []byte
	stored  []byte   // what the file has
	on      *os.File // the file, once it was stored
	added   bool     // to it, which may not be on the disk
	qid     uint64
	writers int
	cut     bool // truncated, which is not stored
	made    bool // by who opened it, and nothing is stored
}

// join returns the file at path, open for writing once more.
func (n *file) join(flags int, perm os.FileMode) (*whole, error) {
	s := n.f.wholes
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := n.f.root.Lstat(n.path)
	made := err != nil
	if made {
		if err := n.f.fits(n.path, nil); err != nil {
			return nil, err
		}
	}
	h, err := n.openPlain(flags&^(os.O_TRUNC|os.O_WRONLY)|os.O_RDWR, perm)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	w := s.open[n.path]
	if w == nil {
		st, err := h.Stat(context.Background())
		if err != nil {
			return nil, err
		}
		w = &whole{path: n.path, made: made, qid: st.Qid}
		if w.text, err = io.ReadAll(io.LimitReader(h.f, maxWhole+1)); err != nil {
			return nil, err
		}
		if len(w.text) > maxWhole {
			return nil, tooLong(n.path)
		}
		w.stored = w.text
		s.open[n.path] = w
	}
	w.writers++
	if flags&os.O_TRUNC != 0 {
		w.truncate(0)
	}
	return w, nil
}

func tooLong(path string) error {
	return fmt.Errorf("%w: %s: at most %d bytes", fs.ErrNoSpace, path, maxWhole)
}

// fits says why the file at path cannot have a text.
func (f *Folder) fits(path string, text []byte) error {
	if f.Fits == nil {
		return nil
	}
	return f.Fits(path, text)
}

func (w *whole) truncate(size int64) {
	text := make([]byte, size)
	copy(text, w.text)
	w.text, w.cut = text, true
}

// store puts text in the file's place. The caller holds wholes.mu.
func (f *Folder) store(w *whole, text []byte) error {
	if w.path == "" {
		w.text = text
		return nil
	}
	err := f.fits(w.path, text)
	var on *os.File
	if err == nil {
		on, err = f.replace(w.path, text)
	}
	if err != nil {
		text = w.stored
		if w.made {
			f.root.Remove(w.path) // there was none
		}
	} else {
		w.on.Close()
		w.on, w.added = on, false
	}
	w.text, w.stored, w.cut, w.made = text, text, false, w.made && err != nil
	return err
}

// ours says whether the file is still the one that was stored.
func (f *Folder) ours(w *whole) bool {
	if w.on == nil || w.path == "" || w.cut {
		return false
	}
	was, werr := w.on.Stat()
	is, err := f.root.Lstat(w.path)
	return werr == nil && err == nil && os.SameFile(was, is) && is.Size() == int64(len(w.stored))
}

// add stores what text has behind that of the file, all of it or nothing.
func (w *whole) add(text []byte) error {
	size := len(w.stored)
	if _, err := w.on.WriteAt(text[size:], int64(size)); err != nil {
		return errors.Join(err, w.on.Truncate(int64(size)))
	}
	w.text, w.stored, w.added = text, text, true
	return nil
}

// sync has on the disk what was added.
func (w *whole) sync() error {
	if !w.added {
		return nil
	}
	w.added = false
	return w.on.Sync()
}

// replace writes text aside, to the disk, and renames that.
func (f *Folder) replace(name string, text []byte) (*os.File, error) {
	aside := ".new-" + rand.Text()
	perm := os.FileMode(0o644)
	old, lerr := f.root.Lstat(name)
	if lerr == nil {
		perm = old.Mode().Perm()
	}
	out, err := f.root.OpenFile(aside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return nil, err
	}
	_, err = out.Write(text)
	if err == nil && lerr == nil {
		err = keepOwner(out, old)
	}
	if err == nil {
		err = out.Sync()
	}
	if err == nil {
		err = f.root.Rename(aside, name)
	}
	if err == nil {
		err = f.syncFolder(path.Dir(name))
	}
	if err != nil {
		out.Close()
		f.root.Remove(aside)
		return nil, err
	}
	return out, nil
}

// syncFolder has the names in a folder on the disk.
func (f *Folder) syncFolder(name string) error {
	d, err := f.root.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return syncFile(d)
}

var syncFile = (*os.File).Sync // but in tests

// keepOwner gives a file the mode and the owner of the one that it replaces.
func keepOwner(out *os.File, old os.FileInfo) error {
	if err := out.Chmod(old.Mode().Perm()); err != nil {
		return err
	}
	if st := stat(old); os.Geteuid() == 0 {
		return out.Chown(int(st.UID), int(st.GID))
	}
	return nil
}

// resize takes a truncation by name, and says whether somebody has the file
// open for writing.
func (n *file) resize(size uint64) (bool, error) {
	s := n.f.wholes
	if s == nil {
		return false, nil
	}
	if size > maxWhole {
		return true, tooLong(n.path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := n.f.fits(n.path, make([]byte, size)); err != nil {
		return true, err
	}
	w := s.open[n.path]
	if w == nil {
		return false, nil
	}
	w.truncate(int64(size))
	return true, nil
}

// move does what gives a file or a folder another name, or none if to is "".
// Nothing is stored meanwhile, under the name that goes.
func (s *wholes) move(from, to string, do func() error) error {
	if s == nil {
		return do()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := do()
	if err == nil && from != to {
		s.rename(to, "") // what was there
		s.rename(from, to)
	}
	return err
}

// rename gives what is open another path, with what is below it. The caller
// holds mu.
func (s *wholes) rename(from, to string) {
	for was, w := range s.open {
		rest, found := strings.CutPrefix(was, from)
		if !found || rest != "" && rest[0] != '/' {
			continue
		}
		delete(s.open, was)
		if w.path = ""; to != "" {
			w.path = to + rest
			s.open[w.path] = w
		}
	}
}

// pending returns the text of a file that was truncated, which is not stored.
func (n *file) pending() (text []byte, ok bool) {
	s := n.f.wholes
	if s == nil {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.open[n.path]; w != nil && w.cut {
		return w.text, true
	}
	return nil, false
}

// wholeHandle is a whole that is open for writing.
type wholeHandle struct {
	fs.MadeUp
	f      *Folder
	w      *whole
	append bool
	once   sync.Once
	err    error
}

func (h *wholeHandle) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	h.f.wholes.mu.Lock()
	defer h.f.wholes.mu.Unlock()
	if off < 0 || off >= int64(len(h.w.text)) {
		return 0, nil
	}
	return copy(p, h.w.text[off:]), nil
}

func (h *wholeHandle) WriteAt(_ context.Context, p []byte, off int64) (int, error) {
	h.f.wholes.mu.Lock()
	defer h.f.wholes.mu.Unlock()
	if h.append {
		off = int64(len(h.w.text))
	}
	end := off + int64(len(p))
	if end > maxWhole {
		return 0, tooLong(h.w.path)
	}
	if off == int64(len(h.w.text)) && h.f.ours(h.w) {
		text := append(h.w.text, p...)
		err := h.f.fits(h.w.path, text)
		if err == nil {
			err = h.w.add(text)
		}
		if err != nil {
			return 0, err
		}
		return len(p), nil
	}
	text := make([]byte, max(end, int64(len(h.w.text))))
	copy(text, h.w.text)
	copy(text[off:], p)
	if err := h.f.store(h.w, text); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (h *wholeHandle) Stat(context.Context) (fs.Stat, error) {
	h.f.wholes.mu.Lock()
	defer h.f.wholes.mu.Unlock()
	if h.w.path == "" {
		return fs.Stat{Qid: h.w.qid, Mode: 0o600, Size: uint64(len(h.w.text)), Nlink: 0}, nil
	}
	fi, err := h.f.root.Lstat(h.w.path)
	if err != nil {
		return fs.Stat{}, err
	}
	st := stat(fi)
	st.Qid, st.Size = h.w.qid, uint64(len(h.w.text))
	return st, nil
}

// Flush has on the disk what was written. It leaves a truncation alone: a shell
// closes a file that it has opened for a program to write to.
func (h *wholeHandle) Flush(context.Context) error {
	h.f.wholes.mu.Lock()
	defer h.f.wholes.mu.Unlock()
	return h.w.sync()
}

// Sync stores a truncation as well.
func (h *wholeHandle) Sync(context.Context) error {
	h.f.wholes.mu.Lock()
	defer h.f.wholes.mu.Unlock()
	return h.f.settle(h.w)
}

// settle has all on the disk. The caller holds wholes.mu.
func (f *Folder) settle(w *whole) error {
	if w.cut {
		return f.store(w, w.text)
	}
	return w.sync()
}

// Close stores a truncation after which nothing was written, if it is the last.
func (h *wholeHandle) Close() error {
	h.once.Do(func() { h.err = h.close() })
	return h.err
}

func (h *wholeHandle) close() error {
	s := h.f.wholes
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.w.writers--; h.w.writers > 0 {
		return nil
	}
	if h.w.path != "" {
		delete(s.open, h.w.path)
	}
	err := h.f.settle(h.w)
	h.w.on.Close()
	return err
}
