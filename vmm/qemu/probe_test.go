//go:build linux

package qemu

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestWhileProbing has somebody probe, which may take a minute: others give up
// waiting for the answer when they like.
func TestWhileProbing(t *testing.T) {
	d := New(Config{Dir: t.TempDir()})
	d.probing <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := d.Probe(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("probe: %v", err)
	}
	if _, err := d.accel(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("accel: %v", err)
	}
}
