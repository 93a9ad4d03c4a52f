package vmm

import (
	"context"
	"time"
)

// A pace limits the work that guests can have this process do to half a
// processor for all of them together, whatever their own limits are. One piece
// of work runs at a time, for a slice; then nothing runs for as long, and the
// piece that has waited longest is next.
type pace chan struct{}

const slice = 10 * time.Millisecond

// A turn is a piece of work that keeps the pace.
type turn struct {
	place pace
	began time.Time // when it got the place; zero: it has not
}

// rest waits until the work may go on, for another slice. It is called again
// and again while there is work.
func (t *turn) rest(ctx context.Context) error {
	if !t.began.IsZero() {
		if time.Since(t.began) < slice {
			return context.Cause(ctx)
		}
		t.end()
	}
	select {
	case t.place <- struct{}{}:
		t.began = time.Now()
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// end ends the work. It can be called again.
func (t *turn) end() {
	if !t.began.IsZero() {
		time.AfterFunc(time.Since(t.began), func() { <-t.place })
		t.began = time.Time{}
	}
}
