package tree_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"hutch/cmd/hutchd/tree"
)

// TestShutdown shuts a service down: what runs is stopped first, and what does
// not run stays what it is.
func TestShutdown(t *testing.T) {
	ended := false
	h := newHouse(t, func(c *tree.Config) { c.Shutdown = func() { ended = true } })
	h.start("a")
	if _, err := h.walk("vm").Mkdir(t.Context(), "b", 0o755); err != nil {
		t.Fatal(err)
	}
	h.start("c")
	tell(t, h.walk("vm/c"), "suspend")
	anonymous, err := h.walk("vm/clone").Open(t.Context(), os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer anonymous.Close()
	if _, err := anonymous.WriteAt(t.Context(), []byte("start\n"), 0); err != nil {
		t.Fatal(err)
	}
	<-h.guests
	tell(t, h.Root(), "shutdown")
	var states []string
	for line := range strings.Lines(h.read("status")) {
		words := strings.Fields(line)
		states = append(states, words[0]+" "+words[1])
	}
	if want := []string{"a stopped", "b created", "c suspended"}; !slices.Equal(states, want) || !ended {
		t.Errorf("shutdown leaves %q, want %q; the service was told to end: %v", states, want, ended)
	}
}
