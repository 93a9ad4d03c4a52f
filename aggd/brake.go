package aggd

import (
	"sync"
	"time"
)

// A server may send so many notifications at once, and so many a second from then
// on; one that sends more is read more slowly, and nobody else notices.
const (
	notificationBurst = 4096
	notificationRate  = 2000
)

// A brake allows a burst of events and then a steady rate.
type brake struct {
	mu    sync.Mutex // guards the fields below
	burst float64
	rate  float64 // a second
	left  float64
	seen  time.Time
}

func newBrake(burst, rate float64) *brake {
	return &brake{burst: burst, rate: rate, left: burst}
}

// take takes one event and returns how long to wait before it is in the rate.
func (b *brake) take(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.seen.IsZero() {
		b.left = min(b.burst, b.left+now.Sub(b.seen).Seconds()*b.rate)
	}
	b.seen = now
	b.left--
	if b.left >= 0 {
		return 0
	}
	return time.Duration(-b.left / b.rate * float64(time.Second))
}

// allow takes one event if it is in the rate.
func (b *brake) allow(now time.Time) bool {
	wait := b.take(now)
	if wait > 0 {
		b.mu.Lock()
		b.left++
		b.mu.Unlock()
	}
	return wait == 0
}
