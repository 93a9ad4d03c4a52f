package fstest

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"hutch/fs"
)

func walk(t *testing.T, n fs.Node, names ...string) fs.Node {
	t.Helper()
	for _, name := range names {
		var err error
		if n, err = n.Walk(t.Context(), name); err != nil {
			t.Fatalf("walk %s: %v", name, err)
		}
	}
	return n
}

func TestCancelledReadTakesNothing(t *testing.T) {
	tree := New(t.TempDir())
	h, err := walk(t, tree.Root(), "events").Open(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := h.ReadAt(ctx, make([]byte, 10), 0)
		ended <- err
	}()
	if err := tree.AwaitBlocked(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled read: %v", err)
	}
	tree.Push("one\n")
	p := make([]byte, 10)
	n, err := h.ReadAt(t.Context(), p, 0)
	if err != nil || string(p[:n]) != "one\n" {
		t.Errorf("read %q, %v", p[:n], err)
	}
	h.Close()
	if open, closed := tree.Handles(); open != 0 || closed != 1 {
		t.Errorf("%d open, %d closed", open, closed)
	}
}

func TestStore(t *testing.T) {
	ctx := t.Context()
	tree := New(t.TempDir())
	store := walk(t, tree.Root(), "store")
	_, h, err := store.Create(ctx, "a", 1, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	h.WriteAt(ctx, []byte("hello"), 0)
	h.Close()
	if _, err := store.Mkdir(ctx, "d", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := store.Rename(ctx, "a", walk(t, store, "d"), "b"); err != nil {
		t.Fatal(err)
	}
	if err := store.Remove(ctx, "d", true); fs.Errno(err) != syscall.ENOTEMPTY {
		t.Errorf("remove full directory: %v", err)
	}
	size := uint64(2)
	if err := walk(t, store, "d", "b").Set(ctx, fs.Change{Size: &size}); err != nil {
		t.Fatal(err)
	}
	if st, _ := walk(t, store, "d", "b").Stat(ctx); st.Size != 2 {
		t.Errorf("size %d", st.Size)
	}
}
