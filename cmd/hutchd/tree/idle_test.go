package tree_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hutch/cmd/hutchd/tree"
	"hutch/fs"
	"hutch/mcpd/ledger"
)

// TestIdleLedgers queries many VMs that have no machine. Their ledgers are closed
// when nobody needs them, and only then: another can open the files.
func TestIdleLedgers(t *testing.T) {
	state := ""
	h := newHouse(t, func(c *tree.Config) { state, c.LedgerIdle = c.State, 10*time.Millisecond })
	names := []string{"one", "two", "three"}
	for _, name := range names {
		if _, err := h.walk("vm").Mkdir(t.Context(), name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	free := func(name string) error {
		db, err := ledger.Open(filepath.Join(state, "vm", name, "session.db"), ledger.Options{})
		if err == nil {
			err = db.Close()
		}
		return err
	}
	events, err := h.walk("vm/two/events").Open(t.Context(), os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := events.ReadAt(t.Context(), make([]byte, 4096), 0); n == 0 || err != nil {
		t.Errorf("two has %d bytes of events, %v", n, err)
	}
	for range 2 {
		q, err := h.walk("db/query").Open(t.Context(), os.O_RDWR)
		if err != nil {
			t.Fatal(err)
		}
		q.WriteAt(t.Context(), []byte("SELECT count(DISTINCT vm) n FROM vm_events;\n"), 0)
		p := make([]byte, 64)
		if n, err := q.ReadAt(t.Context(), p, 0); string(p[:n]) != "{\"n\":3}\n" {
			t.Errorf("got %q, %v", p[:n], err)
		}
		q.Close()
		for _, name := range []string{"one", "three"} {
			for err := free(name); err != nil; err = free(name) {
				if !errors.Is(err, fs.ErrBusy) {
					t.Fatal(err)
				}
			}
		}
	}
	if err := free("two"); !errors.Is(err, fs.ErrBusy) {
		t.Errorf("the ledger of two, whose events are open: %v", err)
	}
	events.Close()
	for err := free("two"); err != nil; err = free("two") {
		if !errors.Is(err, fs.ErrBusy) {
			t.Fatal(err)
		}
	}
}
