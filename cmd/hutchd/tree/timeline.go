package tree

import (
	"context"

	"hutch/fs"
	"hutch/mcpd/timeline"
)

// openTimeline opens the events of a VM, of which messages that are written say
// which are wanted.
func openTimeline(c call, flags int) (fs.Handle, error) {
	db, err := c.At.vm.Ledger()
	if err != nil {
		return nil, err
	}
	return c.At.s.openNarrowed(flags, timeline.Words, func(ctx context.Context, q timeline.Query) (string, error) {
		return timeline.Read(ctx, db, q)
	})
}
