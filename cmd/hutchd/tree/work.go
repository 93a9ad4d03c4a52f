package tree

import "sync"

// Work is goroutines that are waited for at an end, after which none begins:
// the kernel tells of a close, and a guest dials, when what they are about may
// be gone.
type work struct {
	mu    sync.Mutex // guards ended; nothing is added while it is waited
	ended bool
	wg    sync.WaitGroup
}

// begin does f on a goroutine, unless it is too late for that.
func (w *work) begin(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.wg.Go(f)
	}
	return !w.ended
}

// end waits for all that has begun.
func (w *work) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.wg.Wait()
}
