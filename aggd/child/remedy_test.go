package child

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"hutch/aggd/wire"
	"hutch/fs"
)

// TestRemedyLate takes a secret away while those of another server are asked for again:
// what was read before does not come back with these.
func TestRemedyLate(t *testing.T) {
	var mending, gone atomic.Bool
	asked, answer := make(chan struct{}), make(chan struct{})
	resolve := func(_ context.Context, ref string) (string, error) {
		switch {
		case ref == "a" && gone.Load():
			return "", fmt.Errorf("%w: secret a", fs.ErrNotExist)
		case ref == "a":
			return "old", nil
		case mending.CompareAndSwap(true, false):
			close(asked)
			<-answer
		}
		return "", fs.ErrTimedOut
	}
	c := &Child{cfg: Config{Resolve: resolve}, defining: make(chan struct{}, 1), faulty: make(chan struct{}, 1)}
	define := func() {
		servers := func() []wire.Server {
			return []wire.Server{{Name: "a", BearerToken: "a"}, {Name: "b", BearerToken: "b"}}
		}
		if err := c.define(t.Context(), servers); err != nil {
			t.Fatal(err)
		}
	}
	define()
	mending.Store(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.remedy(t.Context())
	}()
	<-asked
	gone.Store(true)
	define()
	close(answer)
	<-done
	if s := c.told()[0]; s.Fault == "" {
		t.Errorf("the removed secret is told again: %q", s.BearerToken)
	}
}
