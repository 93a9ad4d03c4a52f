package tree

import (
	"context"

	"hutch/fs"
	"hutch/mcpd/timeline"
)

// openTimeline opens the events of a VM, of which messages that are written say
// which are wanted.
func openTimeline(c call, flags int) (fs.Handle, error) {
	return c.At.s.openNarrowed(flags, timeline.Words, func(ctx context.Context, q timeline.Query) (string, error) {
		db, release, err := c.At.gw.HoldLedger()
		if err != nil {
			return "", err
		}
		defer release()
		return timeline.Read(ctx, db, q)
	})
}
