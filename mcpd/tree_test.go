package mcpd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"hutch/aggd/child"
	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/mcpd/frame"
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

// TestServersOwnCode has a server answer with the code that hutch has for a time that is
// over: it is the server's error and nothing else.
func TestServersOwnCode(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	_, err := st.Call(t.Context(), Caller{}, "one__error", json.RawMessage(`{"as":"-32000"}`))
	if err == nil || errors.Is(err, fs.ErrTimedOut) || !strings.Contains(err.Error(), "connection closed") {
		t.Errorf("got %v", err)
	}
}

// TestPreambleName has the name of the preamble count where a frame has none.
func TestPreambleName(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	a, b := socketPair(t)
	ended := make(chan error, 1)
	go func() { ended <- st.Serve(context.Background(), b) }()
	go io.Copy(io.Discard, a)
	w := frame.NewWriter(a)
	w.Preamble("agent")
	for i, name := range []string{"", "other"} {
		payload := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"one__echo"}}`, i+1)
		w.WriteFrame(frame.Frame{Version: 2, Stream: uint32(i + 1), Process: name, Payload: []byte(payload)})
		want := cmp.Or(name, "agent")
		if r := st.lines(i + 1)[i]; r["process_name"] != want {
			t.Errorf("process %v, want %s", r["process_name"], want)
		}
	}
	a.Close()
	<-ended
}
