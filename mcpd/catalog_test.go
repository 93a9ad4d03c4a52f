package mcpd

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"hutch/aggd/wire"
)

// The lists of clients that asked longest ago go when all take too much; those that the
// tree shows and the last stay.
func TestCatalogRoom(t *testing.T) {
	e := New(Config{})
	defer e.Close()
	for _, key := range []string{"", "a", "b", "c", "a", "d", ""} {
		e.catalogs.of(key)[wire.Tools].held.Store(&stock{result: make([]byte, maxKept/3)})
		e.catalogs.makeRoom()
	}
	if got := fmt.Sprint(slices.Sorted(maps.Keys(e.catalogs.byKey)), e.catalogs.order); got != "[ a c d] [c a d ]" {
		t.Errorf("kept and their order: %s", got)
	}
	e.catalogs.of("e")[wire.Tools].held.Store(&stock{apart: maxKept}) // held back
	if e.catalogs.makeRoom(); fmt.Sprint(e.catalogs.order) != "[ e]" {
		t.Errorf("beside tools that are held back: %q", e.catalogs.order)
	}
	e.catalogs.of("big")[wire.Tools].held.Store(&stock{items: make([]wire.Item, maxKept/itemCost+1)})
	if e.catalogs.makeRoom(); fmt.Sprint(e.catalogs.order) != "[ big]" {
		t.Errorf("beside one that takes all: %q", e.catalogs.order)
	}
}
