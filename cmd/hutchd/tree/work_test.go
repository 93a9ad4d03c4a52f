package tree

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestWorkEnds has work begin while its end is waited for.
func TestWorkEnds(t *testing.T) {
	var w work
	var others sync.WaitGroup
	var over atomic.Bool
	for range 4 {
		others.Go(func() {
			for w.begin(func() {
				if over.Load() {
					t.Error("something runs after the end")
				}
			}) {
			}
		})
	}
	w.end()
	over.Store(true)
	others.Wait()
}
