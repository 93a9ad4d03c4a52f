package workload

import (
	"context"
	"errors"
	"testing"

	"hutch/aggd/programs"
	"hutch/cmd/hutchd/sandbox"
)

// TestStartEarly starts a program for a VM that is adopted while the service is being
// opened: it waits for that.
func TestStartEarly(t *testing.T) {
	w := New(new(sandbox.Service), t.TempDir(), nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("waited")
	cancel(why)
	if _, err := w.start(ctx, nil, programs.Start{}); err != why {
		t.Errorf("%v, want %v", err, why)
	}
}
