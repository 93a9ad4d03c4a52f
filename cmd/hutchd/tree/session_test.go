package tree_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
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

// TestDataLasts takes more through a session than it keeps, and finds none of it
// missing; what was read makes room.
func TestDataLasts(t *testing.T) {
	h := newHouse(t)
	h.start("x")
	if _, err := h.walk("vm/x/mcp/sessions").Mkdir(t.Context(), "s", 0o755); err != nil {
		t.Fatal(err)
	}
	data, err := h.walk("vm/x/mcp/sessions/s/data").Open(t.Context(), os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	say := func(line string) {
		t.Helper()
		if n, err := data.WriteAt(t.Context(), []byte(line+"\n"), 0); err != nil || n != len(line)+1 {
			t.Fatal(n, err)
		}
	}
	p := make([]byte, 64<<10)
	hear := func() (line string) {
		t.Helper()
		for !strings.HasSuffix(line, "\n") {
			n, err := data.ReadAt(t.Context(), p, 0)
			if err != nil || n == 0 {
				t.Fatalf("%d bytes, %v", n, err)
			}
			line += string(p[:n])
		}
		return line
	}
	say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	hear()
	text := strings.Repeat("long ", 50_000)
	say(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"file_write","arguments":{"path":"f","content":%q}}}`, text))
	hear()
	for id := 2; id < 42; id++ {
		say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"file_read","arguments":{"path":"f"}}}`, id))
		if line := hear(); !strings.HasPrefix(line, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,`, id)) || !strings.Contains(line, text) || strings.Count(line, "\n") != 1 {
			t.Fatalf("answer %d: %.200s of %d bytes", id, line, len(line))
		}
	}
	out, err := h.walk("vm/x/mcp/sessions/s/out").Open(t.Context(), os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if n, err := out.ReadAt(t.Context(), p, 0); err != nil || n == 0 || strings.HasPrefix(string(p[:n]), `{"jsonrpc":"2.0","id":0,`) {
		t.Errorf("out begins with %.50q, %v", p[:n], err)
	}
}

// TestHalfLines has lines begin in sessions and not end: they have so much together.
func TestHalfLines(t *testing.T) {
	h := newHouse(t)
	h.start("x")
	var data []fs.Handle
	for _, name := range []string{"a", "b"} {
		if _, err := h.walk("vm/x/mcp/sessions").Mkdir(t.Context(), name, 0o755); err != nil {
			t.Fatal(err)
		}
		d, err := h.walk("vm/x/mcp/sessions/"+name+"/data").Open(t.Context(), os.O_RDWR)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		data = append(data, d)
	}
	part := []byte(strings.Repeat(" ", 1<<20))
	for n := range 65 {
		_, err := data[n%2].WriteAt(t.Context(), part, 0)
		if n < 64 && err != nil || n == 64 && !fs.Is(err, fs.ErrNoSpace) {
			t.Fatalf("part %d: %v", n, err)
		}
	}
	if _, err := data[0].WriteAt(t.Context(), []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := data[1].WriteAt(t.Context(), part, 0); err != nil {
		t.Errorf("after a line has ended: %v", err)
	}
}
