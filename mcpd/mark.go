package mcpd

import (
	"time"

	"hutch/aggd/jsonrpc"
)

// mark has the workspace kept as it is before the call changes it, so that it
// can be undone. The time that takes is not the call's.
func (c *call) mark() *Error {
	before := c.session.e.cfg.Before
	if before == nil || !c.changes() {
		return nil
	}
	defer c.wait(time.Now())
	err := before(c.ctx, c.row.id, c.tool, c.command != nil)
	switch {
	case err == nil:
		return nil
	case c.ctx.Err() != nil:
		return ended(c.ctx)
	}
	return failure(jsonrpc.CodeInternal, "nothing was done: it could not be undone: %s", c.session.e.redact(err.Error()))
}

// changes says whether the call may change the workspace. Servers have no hand
// in that.
func (c *call) changes() bool {
	return c.file != nil && c.file.Changes() || c.command != nil && c.command.wrong == nil
}
