package process

import (
	"context"
	"time"
)

// Back-off between two starts: at once after a good run, then doubling.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 30 * time.Second
	goodRun    = 10 * time.Second
)

// Keep keeps a process running until ctx ends. Once runs one, and returns why
// it ended when nothing of it is left; down is told that, unless ctx has ended.
func Keep(ctx context.Context, once func(context.Context) error, down func(error)) {
	pause := time.Duration(0)
	for ctx.Err() == nil {
		began := time.Now()
		err := once(ctx)
		if ctx.Err() != nil {
			return
		}
		down(err)
		if time.Since(began) > goodRun {
			pause = 0
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(max(2*pause, firstPause), lastPause)
	}
}
