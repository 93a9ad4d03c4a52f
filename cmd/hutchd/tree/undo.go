package tree

import (
	"fmt"
	"strings"
	"time"

	"hutch/fs"
)

func undoVM(c call, args []string) error { return c.At.vm.Undo(c.Ctx, args[0]) }

// undoList is a line for each call or command that can be undone: its ID, when
// it came, the snapshot, and what it was.
func undoList(c call) (string, error) {
	list, err := c.At.vm.Points()
	var b strings.Builder
	for _, p := range list {
		fmt.Fprintf(&b, "%s %s %s %s\n", p.ID, p.Time.UTC().Format(time.RFC3339Nano), p.Snapshot, fs.QuoteLine(p.What))
	}
	return b.String(), err
}
