package sandbox

import (
	"context"
	"strconv"

	"hutch/vmm"
)

// beforeCall is told of MCP calls that may change the workspace.
func (v *Sandbox) beforeCall(ctx context.Context, id uint64, tool string, command bool) error {
	if !v.Undoes(true, command) {
		return nil
	}
	return v.Before(ctx, strconv.FormatUint(id, 10), tool)
}

// beforeExec is told of the commands of exec/, with the message that starts them.
func (v *Sandbox) beforeExec(ctx context.Context, name, message string) error {
	if !v.Undoes(false, true) {
		return nil
	}
	return v.Before(ctx, vmm.ExecID(name), message)
}
