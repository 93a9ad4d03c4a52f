package mcpd

import (
	"errors"
	"sync"
	"testing"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
)

// TestGuard has a Guard see each request of a server and how it ended, and keep some
// from being made.
func TestGuard(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := make(map[string]int)
	refuse := false
	guard := func(server string) (func(bool), error) {
		mu.Lock()
		defer mu.Unlock()
		if refuse {
			return nil, errors.New("not now")
		}
		return func(failed bool) {
			mu.Lock()
			defer mu.Unlock()
			if failed {
				server += " failed"
			}
			seen[server]++
		}, nil
	}
	st := newSite(t, func(c *Config) { c.Guard = guard }, testServers("one"))
	g := st.hello(t, 2, `{}`)
	g.ok("tools/call", `{"name":"one__echo"}`)
	g.fails("tools/call", `{"name":"one__error"}`, -32042, "told") // which is no failure
	g.fails("tools/call", `{"name":"one__die"}`, jsonrpc.CodeInternal, "")
	mu.Lock()
	if seen["one"] != 2 || seen["one failed"] != 1 {
		t.Errorf("the guard saw %v", seen)
	}
	refuse = true
	mu.Unlock()
	g.fails("tools/call", `{"name":"one__echo"}`, jsonrpc.CodeInternal, "not now")
}

// TestWhole refuses lists while one of the servers is not there, if they have to be whole.
func TestWhole(t *testing.T) {
	t.Parallel()
	gone := wire.Server{Name: "gone", Program: wire.Program{Command: "/nonexistent"}, Enabled: true}
	st := newSite(t, nil, append(testServers("one"), gone))
	g := st.hello(t, 2, `{}`)
	g.ok("tools/list", "")
	st.SetWhole(true)
	g.fails("tools/list", "", jsonrpc.CodeBusy, "not available: gone; lists are refused")
	g.ok("tools/call", `{"name":"one__echo"}`)
	st.SetWhole(false)
	g.ok("tools/list", "")
}
