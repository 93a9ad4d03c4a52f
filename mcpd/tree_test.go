package mcpd

import (
	"context"
	"os"
	"slices"
	"testing"

	"hutch/aggd/child"
	"hutch/aggd/wire"
)

// TestKnown looks at what servers offer as soon as the aggregator runs.
func TestKnown(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	e := New(Config{VM: func() string { return "dev" }, Work: t.TempDir(), AggdPath: self})
	defer e.Close()
	for _, s := range e.catalogs.of("") {
		s.fetch = func(context.Context, *child.Child, *Arrange) ([]wire.Item, error) {
			return []wire.Item{{Name: "one__" + s.list.Field}}, nil
		}
	}
	offered := func() bool {
		tool := slices.ContainsFunc(e.Items(wire.Tools), func(t wire.Item) bool { return t.Name == "one__tools" })
		prompt := slices.ContainsFunc(e.Items(wire.Prompts), func(p wire.Item) bool { return p.Name == "one__prompts" })
		return tool && prompt
	}
	e.Known(t.Context()) // and returns, without an aggregator
	if offered() {
		t.Error("servers were asked that do not run")
	}
	if err := e.Start(); err != nil {
		t.Fatal(err)
	}
	e.Known(t.Context())
	if !offered() {
		t.Errorf("tools: %v, prompts: %v", e.Items(wire.Tools), e.Items(wire.Prompts))
	}
	for _, list := range wire.Lists {
		for _, want := range e.Items(list) {
			if it, ok := e.Item(list, want.Name); !ok || it.Name != want.Name || it.Server != want.Server {
				t.Errorf("%s by name: %v, %v", want.Name, it, ok)
			}
		}
		if it, ok := e.Item(list, "two__"+list.Field); ok {
			t.Errorf("there is %v", it)
		}
	}
}

// TestKnownEarly looks at what a server offers while the list waits for another one.
func TestKnownEarly(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("hang", "one"))
	held := &st.catalogs.of("")[wire.Tools].held
	await(t, "the tool is not shown while the list is fetched", func() bool {
		early := held.Load() == nil
		it, ok := st.Item(wire.Tools, "one__echo")
		listed := slices.ContainsFunc(st.Items(wire.Tools), func(it wire.Item) bool { return it.Name == "one__echo" })
		return early && ok && listed && it.Server == "one" && len(it.Schema) > 0
	})
}
