package fuse

import (
	"container/list"
	"path"
	"strings"
	"sync"
	"time"

	"hutch/fs"

	"golang.org/x/sys/unix"
)

// An fdCache keeps descriptors of files of host folders, the last used ones.
// A file that lost its name is still there for those who use it: for whom it is
// open, for a process that has it as its directory, and for the kernel, which
// looked it up and is about to open it. With a descriptor it can still be asked.
// Directories stay until the kernel forgets them, or the cache is full. Files
// stay for a moment: the disk has no room again for a file that was removed
// while a descriptor of it is open.
type fdCache struct {
	mu    sync.Mutex // guards what follows, and the cached of every node
	list  list.List  // of *hostNode, the last used first
	max   int        // 0: not known yet
	timed bool       // expire will be called
	done  bool       // nothing more is kept
}

// fileKept is how long a file stays at least that nobody asks for.
const fileKept = time.Second

// A cachedFD is a node's descriptor in an fdCache.
type cachedFD struct {
	fd   int
	at   *list.Element // in the cache; nil: there is no descriptor
	used time.Time
}

// most returns how many descriptors are kept at most: a thirty-second part of
// those that this process may have. mu is held.
func (d *fdCache) most() int {
	if d.max == 0 {
		d.max = int(max(8, min(fs.Descriptors()/32, 1024)))
	}
	return d.max
}

// fdCache returns the cache that n's descriptor is in.
func (n *hostNode) fdCache() *fdCache {
	if n.id.kind == unix.S_IFDIR {
		return &n.f.s.dirs
	}
	return &n.f.s.files
}

// cacheFD puts fd, which is the file n, into the cache, or closes it.
func (n *hostNode) cacheFD(fd int) {
	d := n.fdCache()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done || n.cached.at != nil {
		unix.Close(fd)
		return
	}
	n.cached = cachedFD{fd, d.list.PushFront(n), time.Now()}
	if !d.timed && d == &n.f.s.files {
		d.timed = true
		time.AfterFunc(fileKept, d.expire)
	}
	for d.list.Len() > d.most() {
		d.evict(d.list.Back().Value.(*hostNode))
	}
}

// dupCached returns a copy of n's descriptor, if there is one in the cache.
func (n *hostNode) dupCached() (fd int, ok bool) {
	d := n.fdCache()
	d.mu.Lock()
	defer d.mu.Unlock()
	if n.cached.at == nil {
		return -1, false
	}
	d.list.MoveToFront(n.cached.at)
	n.cached.used = time.Now()
	fd, err := unix.FcntlInt(uintptr(n.cached.fd), unix.F_DUPFD_CLOEXEC, 0)
	return fd, err == nil
}

// expire closes what nobody asked for lately.
func (d *fdCache) expire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.list.Len() > 0 {
		last := d.list.Back().Value.(*hostNode)
		if time.Since(last.cached.used) < fileKept {
			time.AfterFunc(fileKept, d.expire)
			return
		}
		d.evict(last)
	}
	d.timed = false
}

// evict closes n's descriptor, if there is one; mu is held.
func (d *fdCache) evict(n *hostNode) {
	if n.cached.at != nil {
		unix.Close(n.cached.fd)
		d.list.Remove(n.cached.at)
		n.cached = cachedFD{}
	}
}

// closeCached closes n's descriptor in the cache, if there is one.
func (n *hostNode) closeCached() {
	d := n.fdCache()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.evict(n)
}

func (d *fdCache) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done = true
	for d.list.Len() > 0 {
		d.evict(d.list.Back().Value.(*hostNode))
	}
}

// OnForget is told that the kernel knows n no more, nor what is below it.
func (n *hostNode) OnForget() {
	n.closeCached()
	n.f.s.watch.forget(n)
	if n == n.f.top {
		n.f.close()
	}
}

// dupOpen returns a copy of a descriptor of the file, whatever it is called now:
// the one in the cache, or that of someone who has it open.
func (n *hostNode) dupOpen() (fd int, ok bool) {
	if fd, ok = n.dupCached(); ok {
		return fd, ok
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for h := range n.open {
		fd, ok = -1, false
		h.with(func(open int) (err error) {
			fd, err = unix.FcntlInt(uintptr(open), unix.F_DUPFD_CLOEXEC, 0)
			ok = err == nil
			return err
		})
		if ok {
			return fd, true
		}
	}
	return -1, false
}

// addOpen counts h among the open files of n until removeOpen.
func (n *hostNode) addOpen(h *hostFile, flags uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open == nil {
		n.open = map[*hostFile]struct{}{}
	}
	h.writes = flags&unix.O_ACCMODE != unix.O_RDONLY
	n.open[h], h.of = struct{}{}, n
	n.told = time.Time{} // a read changes the time of access, for which the kernel then asks
	if h.writes {
		n.f.s.writes(h)
		n.writers++
		changed(n.EmbeddedInode())
	}
}

func (n *hostNode) removeOpen(h *hostFile) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.open, h)
	if h.writes {
		n.writers--
	}
}

func (n *hostNode) isOpen() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.open) > 0
}

func (n *hostNode) isWritten() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.writers > 0
}

// nearest returns a descriptor of the nearest directory above n that is in the
// cache, or of the folder, and the path from there.
func (n *hostNode) nearest() (fd int, below string, err error) {
	top := n.f.top.EmbeddedInode()
	for at := n.EmbeddedInode(); at != top; {
		name, up := at.Parent()
		if up == nil {
			return -1, "", unix.ESTALE
		}
		below, at = path.Join(name, below), up
		if h, ok := up.Operations().(*hostNode); ok && up != top {
			if fd, ok := h.dupCached(); ok {
				return fd, below, nil
			}
		}
	}
	fd, err = n.f.dup()
	return fd, below, err
}

// openDeep is openBelow for a path of any length. It closes at.
func openDeep(at int, below string) (int, error) {
	for len(below) >= maxPath {
		cut := strings.LastIndexByte(below[:maxPath-1], '/')
		if cut < 0 {
			unix.Close(at)
			return -1, unix.ENAMETOOLONG
		}
		fd, err := openBelow(at, below[:cut])
		unix.Close(at)
		if err != nil {
			return -1, err
		}
		at, below = fd, below[cut+1:]
	}
	if below == "" {
		below = "."
	}
	fd, err := openBelow(at, below)
	unix.Close(at)
	return fd, err
}
