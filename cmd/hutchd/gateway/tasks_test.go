package gateway

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestTasksEnd has tasks begin while their end is waited for.
func TestTasksEnd(t *testing.T) {
	var ts Tasks
	var others sync.WaitGroup
	var over atomic.Bool
	for range 4 {
		others.Go(func() {
			for ts.Begin(func() {
				if over.Load() {
					t.Error("something runs after the end")
				}
			}) {
			}
		})
	}
	ts.End()
	over.Store(true)
	others.Wait()
}
