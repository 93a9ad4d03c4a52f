package tree_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"hutch/fs"
	"hutch/relay/call"
	"hutch/vmm"
	"hutch/vmm/vmmtest"
)

// TestSessionsSideBySide has three programs of one guest talk MCP at once.
func TestSessionsSideBySide(t *testing.T) {
	h := newHouse(t)
	if err := sideBySide(t.Context(), h.start("x")); err != nil {
		t.Fatal(err)
	}
}

// sideBySide opens one session after the other and closes none meanwhile.
func sideBySide(ctx context.Context, g vmmtest.Guest) error {
	for range 3 {
		conn, err := g.Dial(ctx, vmm.PortMCP)
		if err != nil {
			return err
		}
		c, err := call.New(ctx, conn, "test", false)
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.Do(ctx, "tools/list", []byte("{}")); err != nil {
			return err
		}
	}
	return nil
}

// TestSessionOfVMThatGoes makes a session where the VM has gone meanwhile: there
// is none then, to be listed or to be removed.
func TestSessionOfVMThatGoes(t *testing.T) {
	h := newHouse(t)
	h.start("x")
	sessions := h.walk("vm/x/mcp/sessions")
	tell(t, h.walk("vm/x"), "kill")
	if err := h.walk("vm").Remove(t.Context(), "x", true); err != nil {
		t.Fatal(err)
	}
	if _, err := sessions.Mkdir(t.Context(), "late", 0o755); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("made: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := sessions.Remove(ctx, "late", true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed: %v", err)
	}
	if list, err := sessions.List(t.Context()); len(list) > 1 {
		t.Errorf("listed: %v, %v", list, err)
	}
}
