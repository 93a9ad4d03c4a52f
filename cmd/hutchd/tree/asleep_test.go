package tree_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
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
