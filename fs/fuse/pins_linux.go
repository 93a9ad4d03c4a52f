package fuse

import (
	"context"
	"slices"
	"sync"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// pins hold files that were looked up again. The kernel looks a file up and
// opens it in two requests. Where another file takes its name in between,
// the kernel is told that and looks again, but only once: without a pin,
// whoever reads a file that is replaced all the time would see it fail. Pins
// serve the thread that looked, until it has what it looked for, however long
// the machine lets it wait in between.
type pins struct {
	mu  sync.Mutex // guards all
	all []*looker  // the first was told first
}

// maxLookers is how many threads have pins at a time.
const maxLookers = 64

// A looker is a thread that was told to look again, and what it found last.
type looker struct {
	thread uint32
	found  [4]pin
	next   int
}

type pin struct {
	id hostID
	fd int // 0: none
}

// threadOf returns the number of the thread that a request is of. Those that
// this process cannot see share one.
func threadOf(ctx context.Context) uint32 {
	client, ok := gofuse.FromContext(ctx)
	if !ok {
		return 0
	}
	return client.Pid
}

// stale notes that a thread is told to look again.
func (p *pins) stale(thread uint32) {
	p.drop(thread)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) == maxLookers {
		p.all[0].close()
		p.all = slices.Delete(p.all, 0, 1)
	}
	p.all = append(p.all, &looker{thread: thread})
}

// looker returns a thread that was told to look again, or nil; mu is held.
func (p *pins) looker(thread uint32) *looker {
	for _, l := range p.all {
		if l.thread == thread {
			return l
		}
	}
	return nil
}

// add takes over fd, which is the file id as a thread has found it.
func (p *pins) add(thread uint32, id hostID, fd int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.looker(thread)
	if l == nil {
		unix.Close(fd)
		return
	}
	l.found[l.next].close()
	l.found[l.next] = pin{id: id, fd: fd}
	l.next = (l.next + 1) % len(l.found)
}

// get returns a descriptor of the file id, if the thread has found it.
func (p *pins) get(thread uint32, id hostID) (fd int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.looker(thread)
	if l == nil {
		return 0, false
	}
	for _, pin := range l.found {
		if pin.fd == 0 || pin.id != id {
			continue
		}
		fd, err := unix.FcntlInt(uintptr(pin.fd), unix.F_DUPFD_CLOEXEC, 0)
		return fd, err == nil
	}
	return 0, false
}

// drop takes the pins of a thread away.
func (p *pins) drop(thread uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = slices.DeleteFunc(p.all, func(l *looker) bool {
		if l.thread == thread {
			l.close()
		}
		return l.thread == thread
	})
}

func (p *pins) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.all {
		l.close()
	}
	p.all = nil
}

func (l *looker) close() {
	for _, pin := range l.found {
		pin.close()
	}
}

func (p pin) close() {
	if p.fd != 0 {
		unix.Close(p.fd)
	}
}
