package vmm_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"hutch/vmm"
)

// What a guest can have hutchd do for it many times at once is done once at a
// time: the others wait, until their callers give up or the VM goes.
func TestOneAtATime(t *testing.T) {
	w := newWorld(t)
	v := w.make("dev")
	w.put(v, "work/f", "one")
	w.put(v, "layer/up/etc/x", "1")
	for name, c := range map[string]struct {
		busy func(context.Context) (func(), error)
		do   func(ctx context.Context) error
	}{
		"diff":         {v.Comparing, func(ctx context.Context) error { _, err := v.Diff(ctx, vmm.Now, vmm.Now); return err }},
		"guest's diff": {v.Pacing, func(ctx context.Context) error { _, err := v.GuestDiff(ctx, vmm.Now, vmm.Now); return err }},
		"snap":         {v.Snapping, func(ctx context.Context) error { return v.Snap(ctx, "a") }},
	} {
		done, err := c.busy(w.limit())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(w.limit(), 50*time.Millisecond)
		if err := c.do(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s beside another: %v", name, err)
		}
		cancel()
		w.left(v, "")
		done()
		if err := c.do(w.limit()); err != nil {
			t.Errorf("%s after another: %v", name, err)
		}
		if name == "snap" {
			v.DropSnapshot(w.limit(), "a")
		}
	}
}

// What a guest asks for waits for what others have asked for; what the host
// does, for neither.
func TestHostComparesAtOnce(t *testing.T) {
	w := newWorld(t)
	v := w.make("dev")
	done, err := v.Pacing(w.limit())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.limit())
	waited := make(chan error, 1)
	go func() {
		_, err := v.GuestDiff(ctx, vmm.Now, vmm.Now)
		waited <- err
	}()
	if _, err := v.Diff(w.limit(), vmm.Now, vmm.Now); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Errorf("the guest's: %v", err)
	}
	done()
	if _, err := v.GuestDiff(w.limit(), vmm.Now, vmm.Now); err != nil {
		t.Error(err)
	}
}
