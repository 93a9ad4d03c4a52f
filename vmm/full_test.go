package vmm

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// However often all that is wanted goes and comes again, it is looked at once
// at a time.
func TestOneLook(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := &fill{dir: dir}
		m := &meter{filling: make(chan struct{}, 10)}
		for range 5 {
			f.want(ctx, m, -1)
			f.drop(m)
		}
		f.want(ctx, m, -1)
		time.Sleep(fillEvery)
		synctest.Wait()
		if n := len(m.filling); n != 1 {
			t.Errorf("%d looks at a time", n)
		}
		cancel()
		f.close()
	})
}
