//go:build linux

package gvisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestWhileProbing has somebody probe, which may take minutes: others give up
// waiting for the answer when they like, and a machine starts without it.
func TestWhileProbing(t *testing.T) {
	static := filepath.Join(t.TempDir(), "program") // the head of an ELF file that names no interpreter
	head := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 57)...)
	head[20] = 1
	if err := os.WriteFile(static, head, 0o755); err != nil {
		t.Fatal(err)
	}
	d := New(Config{Runsc: static, Guest: static})
	d.probing <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := d.Probe(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("probe: %v", err)
	}
	if got, err := d.platform(); got != platforms[0] || err != nil {
		t.Errorf("platform %q, %v", got, err)
	}
}
