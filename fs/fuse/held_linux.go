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

// A file of a host folder that lost its name is still there for who has it: an
// open one, the directory that a process stands in, and what the kernel looked
// up and is about to open. So an open file is asked by a descriptor of its, and
// of the directories and of the other files that were found last descriptors
// are held until the kernel forgets them; of files not for long, since the disk
// has no room again for one that was removed while somebody has it.
type found struct {
	mu    sync.Mutex // guards what follows, and the held of every node
	list  list.List  // of *hostNode, the last used first
	max   int        // 0: not known yet
	timed bool       // expire will be called
	done  bool       // nothing more is held
}

// fileHeld is for how long a file is held at least that nobody asks for.
const fileHeld = time.Second

// A held is what a hostNode has of a descriptor.
type held struct {
	fd   int
	at   *list.Element // in found; nil: there is no descriptor
	used time.Time
}

// most returns how many nodes are held at most: a thirty-second part of the
// descriptors that this process may have. mu is held.
func (d *found) most() int {
	if d.max == 0 {
		d.max = int(max(8, min(fs.Descriptors()/32, 1024)))
	}
	return d.max
}

// found returns what holds n.
func (n *hostNode) found() *found {
	if n.id.kind == unix.S_IFDIR {
		return &n.f.s.dirs
	}
	return &n.f.s.files
}

// hold takes over fd, which is the file n.
func (n *hostNode) hold(fd int) {
	d := n.found()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done || n.held.at != nil {
		unix.Close(fd)
		return
	}
	n.held = held{fd, d.list.PushFront(n), time.Now()}
	if !d.timed && d == &n.f.s.files {
		d.timed = true
		time.AfterFunc(fileHeld, d.expire)
	}
	for d.list.Len() > d.most() {
		d.let(d.list.Back().Value.(*hostNode))
	}
}

// holds returns a descriptor of n, if it is held.
func (n *hostNode) holds() (fd int, ok bool) {
	d := n.found()
	d.mu.Lock()
	defer d.mu.Unlock()
	if n.held.at == nil {
		return -1, false
	}
	d.list.MoveToFront(n.held.at)
	n.held.used = time.Now()
	fd, err := unix.FcntlInt(uintptr(n.held.fd), unix.F_DUPFD_CLOEXEC, 0)
	return fd, err == nil
}

// expire lets go of what nobody asked for lately.
func (d *found) expire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.list.Len() > 0 {
		last := d.list.Back().Value.(*hostNode)
		if time.Since(last.held.used) < fileHeld {
			time.AfterFunc(fileHeld, d.expire)
			return
		}
		d.let(last)
	}
	d.timed = false
}

// let closes what is held of n; mu is held.
func (d *found) let(n *hostNode) {
	if n.held.at != nil {
		unix.Close(n.held.fd)
		d.list.Remove(n.held.at)
		n.held = held{}
	}
}

// lets has n not be held.
func (n *hostNode) lets() {
	d := n.found()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.let(n)
}

func (d *found) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done = true
	for d.list.Len() > 0 {
		d.let(d.list.Back().Value.(*hostNode))
	}
}

// OnForget is told that the kernel knows n no more, nor what is below it.
func (n *hostNode) OnForget() {
	n.lets()
	n.f.s.watch.forget(n)
	if n == n.f.top {
		n.f.close()
	}
}

// has returns a descriptor of the file that someone has, whatever it is called
// now.
func (n *hostNode) has() (fd int, ok bool) {
	if fd, ok = n.holds(); ok {
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

// opens counts h among the open files of n until it is released.
func (n *hostNode) opens(h *hostFile, flags uint32) {
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

func (n *hostNode) released(h *hostFile) {
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

// near returns a descriptor of the nearest directory above n that is held, or
// of the folder, and the path from there.
func (n *hostNode) near() (fd int, below string, err error) {
	top := n.f.top.EmbeddedInode()
	for at := n.EmbeddedInode(); at != top; {
		name, up := at.Parent()
		if up == nil {
			return -1, "", unix.ESTALE
		}
		below, at = path.Join(name, below), up
		if h, ok := up.Operations().(*hostNode); ok && up != top {
			if fd, ok := h.holds(); ok {
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
