package sandbox

import "sync"

// tasks are goroutines that end waits for. After end none begins: the kernel
// may tell of a close, and a guest may dial, when the VM that they are about is
// gone.
type tasks struct {
	mu    sync.Mutex // guards ended, so that nothing is added to wg while end waits for it
	ended bool
	wg    sync.WaitGroup
}

// begin does f on a goroutine unless end was called, and says whether it does.
func (t *tasks) begin(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.wg.Go(f)
	}
	return !t.ended
}

// end waits for all that has begun.
func (t *tasks) end() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.wg.Wait()
}
