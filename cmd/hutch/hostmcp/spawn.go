package hostmcp

import (
	"context"
	"errors"
	"fmt"
	"path"

	"hutch/fs"
)

type (
	spawned struct {
		ID   string `json:"id"`
		Exec string `json:"exec"` // its name, for output and signal
	}
	signaled struct {
		ID     string `json:"id"`
		Exec   string `json:"exec"`
		Signal string `json:"signal"`
	}
)

// spawn starts a command that stays, as hutch run -d does, until it is removed
// or its sandbox stops.
func spawn(ctx context.Context, c *call) (any, error) {
	vm, dir, err := c.vm()
	if err != nil {
		return nil, err
	}
	there, err := c.t.folders(ctx, dir+"/exec")
	if err != nil {
		return nil, err
	}
	name := ""
	for n := len(there) + 1; ; n++ {
		name = fmt.Sprintf("d%d", n)
		if err = c.t.mkdir(ctx, path.Join(dir, "exec", name)); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err == nil {
		err = c.t.tell(ctx, path.Join(dir, "exec", name, "ctl"), c.execMessages(c.args.number("timeout"), c.args.textMap("env"))...)
		if err != nil {
			c.discard(ctx, path.Join(dir, "exec", name))
		}
	}
	return spawned{vm, name}, err
}

// signalCommand sends a command a signal.
func signalCommand(ctx context.Context, c *call) (any, error) {
	vm, dir, err := c.vm()
	if err != nil {
		return nil, err
	}
	name, signal := c.args.text("exec"), c.args.text("signal")
	if _, err := vmDir(name); err != nil {
		return nil, fmt.Errorf("%w: %q is not the name of a command", fs.ErrInvalid, name)
	}
	return signaled{vm, name, signal}, c.t.tell(ctx, path.Join(dir, "exec", name, "ctl"), "signal "+fs.Quote(signal))
}
