package vmm

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// However many work at a pace, and in however small pieces, they have half of
// the time together, and each its part of that.
func TestPace(t *testing.T) {
	for name, piece := range map[string]int{"long": 1000, "short": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const workers, step = 5, time.Millisecond
				p, began := make(pace, 1), time.Now()
				worked := make([]atomic.Int64, workers)
				for i := range workers {
					go func() {
						for time.Since(began) < time.Minute {
							w := turn{place: p}
							for range piece {
								w.rest(t.Context())
								time.Sleep(step)
								worked[i].Add(int64(step))
							}
							w.end()
						}
					}()
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				var sum time.Duration
				for i := range worked {
					d := time.Duration(worked[i].Load())
					if sum += d; d < 5*time.Second {
						t.Errorf("one has worked for %v", d)
					}
				}
				if sum < 29*time.Second || sum > 31*time.Second {
					t.Errorf("all have worked for %v", sum)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}
