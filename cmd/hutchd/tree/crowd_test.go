package tree_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"hutch/cmd/hutchd/tree"
	"hutch/fs"
	"hutch/relay/call"
	"hutch/vmm"
	"hutch/vmm/vmmtest"
)

// A house is a service whose guests' ports tests dial.
type house struct {
	*tree.Server
	t      *testing.T
	log    *fs.Log
	guests chan vmmtest.Guest
}

// newHouse returns a service with settings as changes make them.
func newHouse(t *testing.T, changes ...func(*tree.Config)) *house {
	t.Helper()
	h := &house{t: t, log: fs.NewLog(64 << 20), guests: make(chan vmmtest.Guest, 1)}
	c := settings(t.TempDir(), h.log, func(ctx context.Context, g vmmtest.Guest) {
		h.guests <- g
		guest(ctx, g)
	})
	for _, change := range changes {
		change(&c)
	}
	var err error
	if h.Server, err = tree.New(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(context.Background()) })
	return h
}

// walk returns what is at path.
func (h *house) walk(path string) fs.Node {
	h.t.Helper()
	n := h.Root()
	for _, name := range strings.Split(path, "/") {
		var err error
		if n, err = n.Walk(h.t.Context(), name); err != nil {
			h.t.Fatalf("%s: %v", path, err)
		}
	}
	return n
}

// start makes a VM and starts it.
func (h *house) start(name string) vmmtest.Guest {
	h.t.Helper()
	vm, err := h.walk("vm").Mkdir(h.t.Context(), name, 0o755)
	if err != nil {
		h.t.Fatal(err)
	}
	tell(h.t, vm, "start")
	return <-h.guests
}

// read returns what the file at path has.
func (h *house) read(path string) string {
	h.t.Helper()
	f, err := h.walk(path).Open(h.t.Context(), os.O_RDONLY)
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1<<20)
	n, err := f.ReadAt(h.t.Context(), b, 0)
	if err != nil && err != io.EOF {
		h.t.Fatal(err)
	}
	return string(bytes.TrimSpace(b[:n]))
}

// dial connects to the MCP port of a guest, n times.
func (h *house) dial(g vmmtest.Guest, n int) (list []net.Conn) {
	h.t.Helper()
	for range n {
		c, err := g.Dial(h.t.Context(), vmm.PortMCP)
		if err != nil {
			h.t.Fatal(err)
		}
		h.t.Cleanup(func() { c.Close() })
		list = append(list, c)
	}
	return list
}

// ask opens a session on a new connection, makes a request, and closes it.
func (h *house) ask(g vmmtest.Guest) error {
	h.t.Helper()
	c, err := call.New(h.t.Context(), h.dial(g, 1)[0], "test", false)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Do(h.t.Context(), "tools/list", []byte("{}"))
	return err
}

// await asks until that has the wanted outcome.
func (h *house) await(g vmmtest.Guest, what string, test func(error) bool) {
	h.t.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err = h.ask(g); test(err) {
			return
		}
	}
	h.t.Fatalf("%s: %v", what, err)
}

func ok(err error) bool { return err == nil }

// TestCrowd has a guest connect more often than it may: it is told so, once
// more in the VM's log, and others do not notice.
func TestCrowd(t *testing.T) {
	h := newHouse(t)
	a, b := h.start("a"), h.start("b")
	open := h.dial(a, 256)
	for range 40 {
		if err := h.ask(a); err == nil || !strings.Contains(err.Error(), "port 5002 has 256 connections") {
			t.Fatalf("one more: %v", err)
		}
	}
	if err := h.ask(b); err != nil {
		t.Errorf("the other VM: %v", err)
	}
	if text := h.read("vm/a/log/security"); strings.Count(text, "port.refused") != 1 {
		t.Errorf("log/security: %s", text)
	}
	if text := h.read("metrics"); !strings.Contains(text, "hutch_guest_connections_refused_total 40") {
		t.Errorf("metrics: %s", text)
	}
	for _, c := range open {
		c.Close()
	}
	h.await(a, "once they are closed", ok)
}

// TestCrowds has one guest take what there is for all: another has a few
// connections all the same.
func TestCrowds(t *testing.T) {
	h := newHouse(t, func(c *tree.Config) { c.Conns = 20 })
	a, b := h.start("a"), h.start("b")
	h.dial(a, 20)
	if err := h.ask(a); err == nil || !strings.Contains(err.Error(), "hutchd has 20 connections of guests") {
		t.Errorf("one more: %v", err)
	}
	own := h.dial(b, 8)
	if err := h.ask(b); err == nil {
		t.Error("the other VM has more than its own")
	}
	own[0].Close()
	h.await(b, "the other VM", ok)
}
