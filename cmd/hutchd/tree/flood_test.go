package tree_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"hutch/fs"
	"hutch/mcpd/frame"
	"hutch/relay/call"
	"hutch/vmm"
	"hutch/vmm/vmmtest"
)

// TestFlood has a guest do what is told, thousands of times: what is written
// of that stays small, and says how often it was.
func TestFlood(t *testing.T) {
	const times = 2000
	h, began := newHouse(t), time.Now()
	if err := flood(t.Context(), h.start("x"), times); err != nil {
		t.Fatal(err)
	}
	vm := h.walk("vm/x")
	minutes := 1 + int(time.Since(began)/time.Minute) // a few are told in each
	for _, name := range []string{"log/security", "events"} {
		if n := strings.Count(text(t, vm, name), "\n"); n > 60*minutes {
			t.Errorf("%s has %d lines of %d bad connections and as many refused calls", name, n, times)
		}
	}
	if n := h.log.Size(); n > uint64(minutes)*64<<10 {
		t.Errorf("the service's log has %d bytes", n)
	}
	if n := strings.Count(text(t, vm, "log/mcp"), `"decision":"denied"`); n != times {
		t.Errorf("%d of %d refused calls are recorded", n, times)
	}
	tell(t, vm, "kill")
	tell(t, vm, "start") // what was counted is told then at the latest
	if err := flood(t.Context(), <-h.guests, times); err != nil {
		t.Fatal(err)
	}
	security := text(t, vm, "log/security")
	for _, kind := range []string{"mcp.frame", "mcp.violation"} {
		if n := counted(security, kind); n < times || n > 2*times {
			t.Errorf("of %d times %s %d are told:\n%s", times, kind, n, security)
		}
	}
}

// counted sums up how often lines say that something was.
func counted(lines, kind string) (sum int) {
	for line := range strings.Lines(lines) {
		if !strings.Contains(line, `"event":"`+kind+`"`) {
			continue
		}
		n := 1
		for _, form := range []string{`"text":"%d more, of`, `(%d times more)`} {
			if at := strings.Index(line, form[:strings.IndexByte(form, '%')]); at >= 0 {
				fmt.Sscanf(line[at:], form, &n)
			}
		}
		sum += n
	}
	return sum
}

// flood makes bad connections, each of a process of another name, and asks for
// what there is not.
func flood(ctx context.Context, g vmmtest.Guest, times int) error {
	for i := range times {
		c, err := g.Dial(ctx, vmm.PortMCP)
		if err != nil {
			return err
		}
		c.Write(append(frame.AppendPreamble(nil, fmt.Sprint("p", i)), "\xff\xff\xff\xff broken"...))
		io.Copy(io.Discard, c)
		c.Close()
	}
	conn, err := g.Dial(ctx, vmm.PortMCP)
	if err != nil {
		return err
	}
	c, err := call.New(ctx, conn, "test", false)
	if err != nil {
		return err
	}
	defer c.Close()
	for i := range times {
		c.Do(ctx, "tools/call", fmt.Appendf(nil, `{"name":"nobody__tool%d"}`, i))
	}
	return nil
}

func tell(t *testing.T, dir fs.Node, message string) {
	t.Helper()
	h := opened(t, dir, "ctl", os.O_WRONLY)
	defer h.Close()
	if _, err := h.WriteAt(t.Context(), []byte(message+"\n"), 0); err != nil {
		t.Fatal(err)
	}
}

// text returns what a file has, up to where it would block.
func text(t *testing.T, dir fs.Node, path string) string {
	t.Helper()
	h := opened(t, dir, path, os.O_RDONLY|syscall.O_NONBLOCK)
	defer h.Close()
	var b strings.Builder
	p := make([]byte, 64<<10)
	for {
		n, err := h.ReadAt(t.Context(), p, int64(b.Len()))
		if n == 0 || err != nil {
			return b.String()
		}
		b.Write(p[:n])
	}
}

func opened(t *testing.T, dir fs.Node, path string, flags int) fs.Handle {
	t.Helper()
	for name := range strings.SplitSeq(path, "/") {
		var err error
		if dir, err = dir.Walk(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	h, err := dir.Open(t.Context(), flags)
	if err != nil {
		t.Fatal(err)
	}
	return h
}
