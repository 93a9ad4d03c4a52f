package mcpd

import (
	"errors"
	"strings"
	"sync"
	"syscall"
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

// TestInterrupted has calls fail that were written to their server, and one that was
// not: the error says which, and so does the ledger.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	refuse := make(chan bool, 1)
	guard := func(string) (func(bool), error) {
		select {
		case <-refuse:
			return nil, errors.New("not now")
		default:
			return func(bool) {}, nil
		}
	}
	servers := testServers("one", "two")
	servers[0].Ours = true
	st := newSite(t, func(c *Config) { c.Guard = guard }, servers)
	g := st.hello(t, 2, `{}`)
	began := 1 // initialize
	for _, tt := range []struct {
		what, tool, data, outcome string
		do                        func() // while the call is under way
	}{
		{"the server dies", "die", `{"hutch/reached":true}`, "interrupted", nil},
		{"another endpoint says so", "error", `{"hutch/reached":true}`, "interrupted", nil},
		{"a server says that it is another endpoint", "two__error", "", "error", nil},
		{"the server says no", "error", `{"big":9007199254740993}`, "error", nil},
		{"there is no server", "echo", `{"hutch/reached":false}`, "error", nil},
		{"the aggregator is killed", "wait", `{"hutch/reached":true}`, "interrupted", func() { syscall.Kill(st.AggregatorPID(), syscall.SIGKILL) }},
	} {
		if tt.what == "there is no server" {
			refuse <- true
		}
		name := tt.tool
		if !strings.Contains(name, "__") {
			name = "one__" + name
		}
		answer := g.send(g.request("tools/call", `{"name":"`+name+`","arguments":{"as":"`+tt.what+`"},"_meta":{"progressToken":1}}`))
		if tt.tool == "wait" {
			g.note("notifications/progress")
			tt.do()
		}
		if err := g.wait(answer).Error; err == nil || string(err.Data) != tt.data {
			t.Errorf("%s: %+v, want the data %s", tt.what, err, tt.data)
		}
		began++
		if r := st.lines(began)[began-1]; r["outcome"] != tt.outcome || r["decision"] != "error" {
			t.Errorf("%s: decision %v, outcome %v, want %s", tt.what, r["decision"], r["outcome"], tt.outcome)
		}
	}
}
