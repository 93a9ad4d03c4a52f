package tree_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"hutch/cmd/hutchd/tree"
	"hutch/vmm"
	"hutch/vmm/vmmtest"
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

// TestShutdownTogether shuts a service down whose guests end only when all of
// them are ending: one that takes long to end does not keep the next waiting.
func TestShutdownTogether(t *testing.T) {
	const vms = 3
	var ending sync.WaitGroup
	ending.Add(vms)
	all := make(chan struct{})
	go func() { ending.Wait(); close(all) }()
	alone := make(chan string, vms)
	h := newHouse(t, func(c *tree.Config) {
		begin := c.Drivers[0].(*vmmtest.Driver).Guest
		c.Drivers = []vmm.Driver{&vmmtest.Driver{Guest: func(ctx context.Context, g vmmtest.Guest) {
			begin(ctx, g) // until its agent is told to shut down
			ending.Done()
			select {
			case <-all:
			case <-ctx.Done():
				alone <- g.Spec.Name
			}
		}}}
	})
	for i := range vms {
		h.start(fmt.Sprint("vm", i))
	}
	tell(t, h.Root(), "shutdown")
	close(alone)
	for name := range alone {
		t.Errorf("%s was stopped alone", name)
	}
}
