package fstest

import (
	"context"
	"fmt"
	"os"
	"sort"
	"time"

	"hutch/fs"
)

// maxSize is how large a stored file gets.
const maxSize = 64 << 20

// An inode is a file, directory or link below store. Tree.mu guards it.
type inode struct {
	qid     uint64
	vers    uint32
	mode    os.FileMode
	nlink   uint32
	uid     uint32
	gid     uint32
	data    []byte
	target  string
	entries map[string]*inode
	atime   time.Time
	mtime   time.Time
}

// inode makes one; callers but New hold mu.
func (t *Tree) inode(mode os.FileMode) *inode {
	in := &inode{qid: t.qid(), mode: mode, nlink: 1, atime: born, mtime: born}
	if mode.IsDir() {
		in.entries = map[string]*inode{}
	}
	return in
}

func (in *inode) touch() {
	in.vers++
	in.mtime = time.Now()
}

func (in *inode) resize(n uint64) {
	if n <= uint64(len(in.data)) {
		in.data = in.data[:n]
	} else {
		in.data = append(in.data, make([]byte, n-uint64(len(in.data)))...)
	}
	in.touch()
}

// A stored is the node of an inode, made anew on each walk.
type stored struct {
	t    *Tree
	in   *inode
	name string
}

// lookup returns the entry called name; mu is held.
func (s *stored) lookup(name string) (*inode, error) {
	if !s.in.mode.IsDir() {
		return nil, fs.ErrNotDir
	}
	in, ok := s.in.entries[name]
	if !ok {
		return nil, fmt.Errorf("%w: %s", fs.ErrNotExist, name)
	}
	return in, nil
}

func (s *stored) child(in *inode, name string) *stored {
	return &stored{t: s.t, in: in, name: name}
}

// make adds an entry; mu is held.
func (s *stored) make(name string, mode os.FileMode) (*inode, error) {
	if !s.in.mode.IsDir() {
		return nil, fs.ErrNotDir
	}
	if _, ok := s.in.entries[name]; ok {
		return nil, fmt.Errorf("%w: %s", fs.ErrExist, name)
	}
	in := s.t.inode(mode)
	s.in.entries[name] = in
	s.in.touch()
	return in, nil
}

func (s *stored) Stat(context.Context) (fs.Stat, error) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	return fs.Stat{
		Name: s.name, Mode: s.in.mode, Qid: s.in.qid, Vers: s.in.vers,
		Size: uint64(len(s.in.data)), Nlink: s.in.nlink, UID: s.in.uid, GID: s.in.gid,
		Atime: s.in.atime, Mtime: s.in.mtime, Ctime: s.in.mtime,
	}, nil
}

func (s *stored) Walk(_ context.Context, name string) (fs.Node, error) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	in, err := s.lookup(name)
	if err != nil {
		return nil, err
	}
	return s.child(in, name), nil
}

func (s *stored) List(context.Context) ([]fs.Entry, error) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	var list []fs.Entry
	for name, in := range s.in.entries {
		list = append(list, fs.Entry{Name: name, Mode: in.mode.Type(), Qid: in.qid})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list, nil
}

func (s *stored) Open(_ context.Context, flags int) (fs.Handle, error) {
	if s.in.mode.IsDir() {
		return nil, fs.ErrIsDir
	}
	s.t.update(func() {
		if flags&os.O_TRUNC != 0 {
			s.in.resize(0)
		}
		s.t.handles++
	})
	return &storedHandle{open: open{t: s.t}, in: s.in, append: flags&os.O_APPEND != 0}, nil
}

func (s *stored) Create(ctx context.Context, name string, flags int, perm os.FileMode) (fs.Node, fs.Handle, error) {
	s.t.mu.Lock()
	in, err := s.lookup(name)
	switch {
	case err == nil && flags&os.O_EXCL != 0:
		err = fmt.Errorf("%w: %s", fs.ErrExist, name)
	case err != nil:
		in, err = s.make(name, perm.Perm())
	}
	s.t.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	n := s.child(in, name)
	h, err := n.Open(ctx, flags)
	return n, h, err
}

func (s *stored) Mkdir(_ context.Context, name string, perm os.FileMode) (fs.Node, error) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	in, err := s.make(name, os.ModeDir|perm.Perm())
	if err != nil {
		return nil, err
	}
	return s.child(in, name), nil
}

func (s *stored) Symlink(_ context.Context, name, target string) (fs.Node, error) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	in, err := s.make(name, os.ModeSymlink|0o777)
	if err != nil {
		return nil, err
	}
	in.target = target
	return s.child(in, name), nil
}

func (s *stored) Link(_ context.Context, name string, target fs.Node) (fs.Node, error) {
	to, ok := target.(*stored)
	if !ok || to.in.mode.IsDir() {
		return nil, fs.ErrNotPermitted
	}
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if _, err := s.make(name, 0); err != nil {
		return nil, err
	}
	s.in.entries[name] = to.in
	to.in.nlink++
	return s.child(to.in, name), nil
}

func (s *stored) Readlink(context.Context) (string, error) {
	if s.in.mode.Type() != os.ModeSymlink {
		return "", fs.ErrInvalid
	}
	return s.in.target, nil
}

func (s *stored) Remove(_ context.Context, name string, dir bool) error {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	in, err := s.lookup(name)
	switch {
	case err != nil:
		return err
	case dir && !in.mode.IsDir():
		return fs.ErrNotDir
	case !dir && in.mode.IsDir():
		return fs.ErrIsDir
	case len(in.entries) > 0:
		return fs.ErrNotEmpty
	}
	delete(s.in.entries, name)
	in.nlink--
	s.in.touch()
	return nil
}

func (s *stored) Rename(_ context.Context, name string, dst fs.Node, newname string) error {
	to, ok := dst.(*stored)
	if !ok {
		return fs.ErrNotPermitted
	}
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	in, err := s.lookup(name)
	if err != nil {
		return err
	}
	if !to.in.mode.IsDir() {
		return fs.ErrNotDir
	}
	if old, ok := to.in.entries[newname]; ok && old != in {
		switch {
		case old.mode.IsDir() && !in.mode.IsDir():
			return fs.ErrIsDir
		case !old.mode.IsDir() && in.mode.IsDir():
			return fs.ErrNotDir
		case len(old.entries) > 0:
			return fs.ErrNotEmpty
		}
		old.nlink--
	}
	delete(s.in.entries, name)
	to.in.entries[newname] = in
	s.in.touch()
	to.in.touch()
	return nil
}

func (s *stored) Set(_ context.Context, c fs.Change) error {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if c.Size != nil {
		if s.in.mode.IsDir() {
			return fs.ErrIsDir
		}
		if *c.Size > maxSize {
			return fs.ErrNoSpace
		}
		s.in.resize(*c.Size)
	}
	if c.Mode != nil {
		s.in.mode = s.in.mode.Type() | c.Mode.Perm()
	}
	if c.UID != nil {
		s.in.uid = *c.UID
	}
	if c.GID != nil {
		s.in.gid = *c.GID
	}
	if c.Atime != nil {
		s.in.atime = *c.Atime
	}
	if c.Mtime != nil {
		s.in.mtime = *c.Mtime
	}
	return nil
}

// A storedHandle is an open file of the store.
type storedHandle struct {
	open
	in     *inode
	append bool
}

func (h *storedHandle) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	h.t.mu.Lock()
	defer h.t.mu.Unlock()
	if off >= int64(len(h.in.data)) {
		return 0, nil
	}
	return copy(p, h.in.data[off:]), nil
}

func (h *storedHandle) WriteAt(_ context.Context, p []byte, off int64) (int, error) {
	if off > maxSize-int64(len(p)) {
		return 0, fs.ErrNoSpace
	}
	h.t.mu.Lock()
	defer h.t.mu.Unlock()
	if h.append {
		off = int64(len(h.in.data))
	}
	if end := uint64(off) + uint64(len(p)); end > uint64(len(h.in.data)) {
		h.in.resize(end)
	}
	copy(h.in.data[off:], p)
	h.in.touch()
	return len(p), nil
}
