package fs

import (
	"context"
	"fmt"
	"maps"
	"os"
	"sync"
	"time"
)

// What there can be of scratch files.
const (
	maxScratch      = 8 << 20          // bytes of one
	maxScratchBytes = 64 << 20         // of all
	maxScratchFiles = 512              // of all
	maxScratchHere  = 32               // of one user in one directory
	scratchTime     = 10 * time.Minute // after which an unused one goes
)

// A scratches holds the files that programs write beside a file of a tree to rename them
// over it. They are in memory, only the user who made one finds it, and they are not
// listed.
type scratches struct {
	mu    sync.Mutex // guards what follows, and each scratch
	dirs  map[scratchDir]map[string]*scratch
	count int // of files that have a name or are open
	bytes int // of these
	last  uint64
	timer *time.Timer // runs while there is a file
	over  []Handle    // to be closed, when mu is not held
}

func (s *scratches) unlock() {
	over := s.over
	s.over = nil
	s.mu.Unlock()
	for _, h := range over {
		h.Close()
	}
}

// A scratchDir is a directory as one user has it.
type scratchDir struct {
	qid uint64
	who Principal
}

// A scratch is a file that nobody but its maker has.
type scratch struct {
	of            *scratches
	qid           uint64
	text          []byte
	changed, used time.Time
	names, opens  int
	left          *delivery // that its writer gave up waiting for
}

// none says whether there are no files.
func (s *scratches) none() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count == 0
}

// find returns the file called name, or nil.
func (s *scratches) find(dir scratchDir, name string) *scratch {
	s.mu.Lock()
	defer s.unlock()
	f := s.dirs[dir][name]
	if f != nil {
		f.used = time.Now()
	}
	return f
}

// make makes a file of a text.
func (s *scratches) make(dir scratchDir, name, text string) (*scratch, error) {
	s.mu.Lock()
	defer s.unlock()
	if len(s.dirs[dir]) >= maxScratchHere || s.count >= maxScratchFiles {
		return nil, fmt.Errorf("%w: at most %d temporary files in a directory, and %d in all: they go when unused for %v", ErrNoSpace, maxScratchHere, maxScratchFiles, scratchTime)
	}
	now := time.Now()
	f := &scratch{of: s, qid: (s.last + 1) << rowBits, changed: now, used: now} // no row has the number 0
	if err := f.resize(len(text)); err != nil {
		return nil, err
	}
	copy(f.text, text)
	s.last++
	s.count++
	s.name(dir, name, f)
	if s.timer == nil {
		s.timer = time.AfterFunc(scratchTime, s.sweep)
	}
	return f, nil
}

// name gives a file a name, which another loses; mu is held.
func (s *scratches) name(dir scratchDir, name string, f *scratch) {
	s.unname(dir, name)
	if s.dirs[dir] == nil {
		s.dirs[dir] = map[string]*scratch{}
	}
	s.dirs[dir][name] = f
	f.names++
}

// unname takes a name away; mu is held.
func (s *scratches) unname(dir scratchDir, name string) {
	f := s.dirs[dir][name]
	if f == nil {
		return
	}
	delete(s.dirs[dir], name)
	if len(s.dirs[dir]) == 0 {
		delete(s.dirs, dir)
	}
	f.names--
	s.settle(f)
}

// settle forgets a file that has no name and is not open; mu is held.
func (s *scratches) settle(f *scratch) {
	if f.names > 0 || f.opens > 0 {
		return
	}
	s.count--
	s.bytes -= len(f.text)
	f.text = nil
	if f.left != nil {
		s.over = append(s.over, f.left.h)
		f.left = nil
	}
}

// sweep forgets the files that were not used for scratchTime.
func (s *scratches) sweep() {
	s.mu.Lock()
	defer s.unlock()
	for dir, files := range maps.Clone(s.dirs) {
		for name, f := range maps.Clone(files) {
			if f.opens == 0 && time.Since(f.used) >= scratchTime {
				s.unname(dir, name)
			}
		}
	}
	if s.timer = nil; s.count > 0 {
		s.timer = time.AfterFunc(scratchTime/2, s.sweep)
	}
}

// drop takes a name away from a file.
func (s *scratches) drop(dir scratchDir, name string) {
	s.mu.Lock()
	defer s.unlock()
	s.unname(dir, name)
}

// link gives a file one name more, and takes another away unless that is "".
func (s *scratches) link(f *scratch, dir scratchDir, name string, old scratchDir, oldname string) {
	s.mu.Lock()
	defer s.unlock()
	f.opens++ // it stays
	s.name(dir, name, f)
	if oldname != "" && (dir != old || name != oldname) {
		s.unname(old, oldname)
	}
	f.opens--
}

// resize cuts the text or fills it with zeros; mu is held.
func (f *scratch) resize(size int) error {
	more := size - len(f.text)
	switch {
	case size > maxScratch:
		return fmt.Errorf("%w: a temporary file beside a file of the tree has at most %d bytes", ErrTooLarge, maxScratch)
	case more > 0 && f.of.bytes+more > maxScratchBytes:
		return fmt.Errorf("%w: temporary files in the tree have at most %d bytes: they go when unused for %v", ErrNoSpace, maxScratchBytes, scratchTime)
	case more > 0:
		f.text = append(f.text, make([]byte, more)...)
	default:
		f.text = f.text[:size]
	}
	f.of.bytes += more
	f.changed = time.Now()
	return nil
}

// A scratchNode is a scratch file by one of its names.
type scratchNode struct {
	Refuse
	f    *scratch
	name string
}

// IsScratch says whether n is a scratch file: renamed over a file of the tree, it is written
// to that and does not take its place.
func IsScratch(n Node) bool {
	_, ok := n.(*scratchNode)
	return ok
}

// lock holds what guards the file, and counts it used.
func (f *scratch) lock() (unlock func()) {
	f.of.mu.Lock()
	f.used = time.Now()
	return f.of.unlock
}

func (n *scratchNode) Stat(context.Context) (Stat, error) {
	f := n.f
	defer f.lock()()
	return Stat{
		Name: n.name, Mode: 0o600, Qid: f.qid, Size: uint64(len(f.text)), Nlink: uint32(f.names),
		UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Mtime: f.changed, Atime: f.changed, Ctime: f.changed,
	}, nil
}

// Set changes the size and the time. Its mode and owner stay, and it is no error
// to change them.
func (n *scratchNode) Set(_ context.Context, c Change) error {
	defer n.f.lock()()
	if c.Size != nil {
		if err := n.f.resize(int(min(*c.Size, maxScratch+1))); err != nil {
			return err
		}
	}
	if c.Mtime != nil {
		n.f.changed = *c.Mtime
	}
	return nil
}

func (n *scratchNode) Open(_ context.Context, flags int) (Handle, error) {
	defer n.f.lock()()
	if n.f.names == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNotExist, n.name)
	}
	if flags&os.O_TRUNC != 0 {
		n.f.resize(0)
	}
	n.f.opens++
	return &scratchHandle{n: n, append: flags&os.O_APPEND != 0}, nil
}

// scratchHandle is an open scratch file.
type scratchHandle struct {
	MadeUp
	n      *scratchNode
	append bool
	once   sync.Once
}

func (h *scratchHandle) Stat(ctx context.Context) (Stat, error) { return h.n.Stat(ctx) }

func (h *scratchHandle) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	defer h.n.f.lock()()
	if off < 0 || off >= int64(len(h.n.f.text)) {
		return 0, nil
	}
	return copy(p, h.n.f.text[off:]), nil
}

func (h *scratchHandle) WriteAt(_ context.Context, p []byte, off int64) (int, error) {
	f := h.n.f
	defer f.lock()()
	if h.append {
		off = int64(len(f.text))
	}
	if end := min(off, maxScratch) + int64(len(p)); end > int64(len(f.text)) {
		if err := f.resize(int(end)); err != nil {
			return 0, err
		}
	}
	f.changed = time.Now()
	return copy(f.text[off:], p), nil
}

func (h *scratchHandle) Close() error {
	h.once.Do(func() {
		defer h.n.f.lock()()
		h.n.f.opens--
		h.n.f.of.settle(h.n.f)
	})
	return nil
}
