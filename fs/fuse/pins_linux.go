package fuse

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// pinned is how long a file that was looked up again stays what its name meant:
// longer than a busy machine takes from one request of the kernel to the next.
const pinned = 250 * time.Millisecond

// pins hold files that were looked up again. The kernel looks a file up and
// opens it in two requests. Where another file takes its name in between,
// the kernel is told that and looks again, but only once: without a pin,
// whoever reads a file that is replaced all the time would see it fail. A
// pin serves one request.
type pins struct {
	mu    sync.Mutex // guards what follows
	again time.Time  // when the kernel was last told to look again
	ring  [16]pin
	next  int
}

type pin struct {
	id   hostID
	file *os.File
	at   time.Time
}

// stale notes that the kernel is told to look again.
func (p *pins) stale() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.again = time.Now()
}

// add takes over fd, which is the file id.
func (p *pins) add(id hostID, fd int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.again) > pinned {
		unix.Close(fd)
		return
	}
	p.ring[p.next].close()
	p.ring[p.next] = pin{id: id, file: os.NewFile(uintptr(fd), ""), at: time.Now()}
	p.next = (p.next + 1) % len(p.ring)
}

// take returns the file id if it was looked up again just now. Its pin goes.
func (p *pins) take(id hostID) *os.File {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.ring {
		pin := &p.ring[i]
		if pin.file == nil || pin.id != id {
			continue
		}
		file := pin.file
		pin.file = nil
		if time.Since(pin.at) < pinned {
			return file
		}
		file.Close()
	}
	return nil
}

func (p *pins) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.ring {
		p.ring[i].close()
	}
}

func (p *pin) close() {
	if p.file != nil {
		p.file.Close()
		p.file = nil
	}
}
