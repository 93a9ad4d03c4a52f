package tree_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"hutch/cmd/hutchd/tree"
	"hutch/vmm/vmmtest"
)

// What a guest says of its commands when it is suspended is kept, but not
// however much that is.
func TestKeptExecs(t *testing.T) {
	const execs = 16
	h := newHouse(t)
	h.start("dev")
	words := strings.Repeat(" "+strings.Repeat("x", 100<<10), 9)
	for i := range execs {
		if _, err := h.walk("vm/dev/exec").Mkdir(t.Context(), fmt.Sprint("e", i), 0o755); err != nil {
			t.Fatal(err)
		}
		tell(t, h.walk(fmt.Sprint("vm/dev/exec/e", i)), "exec true"+words)
	}
	tell(t, h.walk("vm/dev"), "suspend")
	kept, p := 0, make([]byte, 1<<20)
	for i := range execs {
		cmd, err := h.walk(fmt.Sprint("vm/dev/exec/e", i, "/cmd")).Open(t.Context(), os.O_RDONLY)
		if err != nil {
			continue
		}
		n, _ := cmd.ReadAt(t.Context(), p, 0)
		kept += n
		cmd.Close()
	}
	if kept == 0 || kept > 4<<20 {
		t.Errorf("%d bytes of commands are kept", kept)
	}
}

// What is kept of commands stays when the VM cannot be resumed.
func TestExecsAfterFailedResume(t *testing.T) {
	var driver *vmmtest.Driver
	h := newHouse(t, func(c *tree.Config) { driver = c.Drivers[0].(*vmmtest.Driver) })
	h.start("dev")
	if _, err := h.walk("vm/dev/exec").Mkdir(t.Context(), "e", 0o755); err != nil {
		t.Fatal(err)
	}
	tell(t, h.walk("vm/dev/exec/e"), "exec true")
	tell(t, h.walk("vm/dev"), "suspend")
	driver.Hold = func(context.Context, vmmtest.Step, string) error { return errors.New("no room") }
	ctl := opened(t, h.walk("vm/dev"), "ctl", os.O_WRONLY)
	defer ctl.Close()
	if _, err := ctl.WriteAt(t.Context(), []byte("resume\n"), 0); err == nil || !strings.Contains(err.Error(), "stays suspended") {
		t.Fatalf("resumed: %v", err)
	}
	if list, err := h.walk("vm/dev/exec").List(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("commands: %v, %v; want clone and e", list, err)
	}
	if cmd := h.read("vm/dev/exec/e/cmd"); cmd != "true" {
		t.Errorf("cmd has %q", cmd)
	}
}
