package tree_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hutch/cmd/hutchd/tree"
	"hutch/fs"
)

// TestErrOfLinks makes links where none can be, and reads of it.
func TestErrOfLinks(t *testing.T) {
	h := newHouse(t)
	vms := h.walk("vm")
	dev, err := vms.Mkdir(t.Context(), "dev", 0o755)
	if err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func() error{
		"made in dev": func() error { _, err := dev.Symlink(t.Context(), "junk", "ctl"); return err },
		"made in vm":  func() error { _, err := vms.Link(t.Context(), "junk", dev); return err },
	} {
		if err := do(); !fs.Is(err, fs.ErrNotPermitted) {
			t.Errorf("%s: %v", what, err)
		}
		if text := h.read("err"); !strings.HasPrefix(text, "operation not permitted: no link can be "+what) {
			t.Errorf("%s: err has %q", what, text)
		}
	}
}

// TestErrOfAggregator starts a VM whose aggregator is not there.
func TestErrOfAggregator(t *testing.T) {
	h := newHouse(t, func(c *tree.Config) { c.Aggd = filepath.Join(c.State, "aggd") })
	h.start("dev")
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		text := h.read("vm/dev/err")
		if strings.HasPrefix(text, "file does not exist: ") && strings.Contains(text, "aggd") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("err has %q", text)
		}
	}
}
