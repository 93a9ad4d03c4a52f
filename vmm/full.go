package vmm

import (
	"context"
	"sync"
	"time"

	"hutch/vmm/disk"
)

// A fill looks at how full the file system of the VMs is, and has those
// measured that may have reached half of what they had left. It is one look
// for all VMs that have a limit, and none while there are no such that run.
type fill struct {
	dir string

	mu      sync.Mutex // guards what follows
	wants   map[*meter]int64
	looking bool // somebody looks
	wait    sync.WaitGroup
}

// fillEvery is how long a guest may write unnoticed.
const fillEvery = 100 * time.Millisecond

// want has m measured once the file system has more than so many bytes.
func (f *fill) want(ctx context.Context, m *meter, bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wants == nil {
		f.wants = make(map[*meter]int64)
	}
	f.wants[m] = bytes
	if !f.looking {
		f.looking = true
		f.wait.Go(func() { f.look(ctx) })
	}
}

// drop forgets m.
func (f *fill) drop(m *meter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.wants, m)
}

// close waits until nothing is looked at. The context of want has ended, and
// nobody wants anything any more.
func (f *fill) close() { f.wait.Wait() }

func (f *fill) look(ctx context.Context) {
	tick := time.NewTicker(fillEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		used := disk.Filled(f.dir)
		f.mu.Lock()
		if len(f.wants) == 0 {
			f.looking = false
			f.mu.Unlock()
			return
		}
		for m, bytes := range f.wants {
			if used > bytes {
				wake(m.filling)
			}
		}
		f.mu.Unlock()
	}
}

// wake tells who waits for c, if it was not told yet.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
