package vmm

import (
	"context"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs/inotify"
)

// A logWatch notices when something is written to the logs of VMs that run,
// and has them cut. Nothing is done while nothing is written.
type logWatch struct {
	file *os.File // inotify's
	fd   int      // its descriptor, while VMs are watched
	done chan struct{}

	mu  sync.Mutex // guards vms
	vms map[int32]*VM
}

// logsEvery is how often logs that are written to all the time are looked at.
const logsEvery = 100 * time.Millisecond

// watchLogs begins to watch. It returns nil where the system does not let us:
// then logs are cut by the meters.
func watchLogs(ctx context.Context) *logWatch {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil
	}
	w := &logWatch{file: os.NewFile(uintptr(fd), "inotify"), fd: fd, done: make(chan struct{}), vms: make(map[int32]*VM)}
	go w.run(ctx)
	return w
}

// close ends the watch, and waits for that.
func (w *logWatch) close() {
	if w != nil {
		w.file.Close()
		<-w.done
	}
}

// add watches a VM, and says whether it can.
func (w *logWatch) add(v *VM) bool {
	if w == nil {
		return false
	}
	v.cutLogs()
	w.mu.Lock()
	defer w.mu.Unlock()
	wd, err := unix.InotifyAddWatch(w.fd, v.path("log"), unix.IN_MODIFY|unix.IN_ONLYDIR)
	if err != nil {
		return false
	}
	w.vms[int32(wd)] = v
	return true
}

func (w *logWatch) drop(v *VM) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for wd, other := range w.vms {
		if other == v {
			delete(w.vms, wd)
			unix.InotifyRmWatch(w.fd, uint32(wd))
		}
	}
}

func (w *logWatch) run(ctx context.Context) {
	defer close(w.done)
	buf := make([]byte, 16<<10)
	for {
		n, err := w.file.Read(buf)
		if err != nil {
			return
		}
		for v := range w.written(buf[:n]) {
			v.cutLogs()
		}
		select {
		case <-time.After(logsEvery):
		case <-ctx.Done():
			return
		}
	}
}

// written returns the VMs that events are of; after an overflow, all.
func (w *logWatch) written(events []byte) map[*VM]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	vms := make(map[*VM]bool)
	for e := range inotify.Events(events) {
		if e.Mask&unix.IN_Q_OVERFLOW != 0 {
			for _, v := range w.vms {
				vms[v] = true
			}
		}
		if v := w.vms[e.Watch]; v != nil {
			vms[v] = true
		}
	}
	return vms
}
