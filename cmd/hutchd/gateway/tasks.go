package gateway

import "sync"

// Tasks are goroutines that End waits for. After End none begins: the kernel
// may tell of a close, and a guest may dial, when the VM that they are about is
// gone.
type Tasks struct {
	mu    sync.Mutex // guards ended, so that nothing is added to wg while End waits for it
	ended bool
	wg    sync.WaitGroup
}

// Begin does f on a goroutine unless End was called, and says whether it does.
func (t *Tasks) Begin(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.wg.Go(f)
	}
	return !t.ended
}

// End waits for all that has begun.
func (t *Tasks) End() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.wg.Wait()
}
