package tree_test

import (
	"errors"
	"os"
	"testing"

	"hutch/fs"
)

// TestServerMadeAnew makes a server while the last one of its name is being removed:
// it is refused, or has a folder of its own.
func TestServerMadeAnew(t *testing.T) {
	h := newHouse(t)
	servers := h.walk("servers")
	if _, err := servers.Mkdir(t.Context(), "x", 0o755); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		removed := make(chan error, 1)
		go func() { removed <- servers.Remove(t.Context(), "x", true) }()
		for {
			_, err := servers.Mkdir(t.Context(), "x", 0o755)
			if err == nil {
				break
			}
			if !errors.Is(err, fs.ErrExist) {
				t.Fatal(err)
			}
		}
		if err := <-removed; err != nil {
			t.Fatal(err)
		}
		f, err := h.walk("servers/x/config").Open(t.Context(), os.O_WRONLY|os.O_TRUNC)
		if err != nil {
			t.Fatal(err)
		}
		f.WriteAt(t.Context(), []byte("{}"), 0)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
