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
func (c *call) spawn(ctx context.Context) (any, error) {
	vm, dir := c.vm(), c.dir()
	there, err := c.t.folders(ctx, dir+"/exec")
	if err != nil {
		return nil, err
	}
	name := ""
	err = c.make(ctx, func(ctx context.Context, t *tree) error {
		for n := len(there) + 1; ; n++ {
			name = fmt.Sprintf("d%d", n)
			if err := t.mkdir(ctx, path.Join(dir, "exec", name)); !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
	})
	if err != nil {
		return nil, err
	}
	dir = path.Join(dir, "exec", name)
	if err := c.t.tell(ctx, dir+"/ctl", c.execMessages(c.args.number("timeout"), c.args.textMap("env"))...); err != nil {
		return nil, c.discard(ctx, dir, err)
	}
	return spawned{vm, name}, nil
}

// signal sends a command a signal.
func (c *call) signal(ctx context.Context) (any, error) {
	vm, dir := c.vm(), c.dir()
	name, signal := c.args.text("exec"), c.args.text("signal")
	return signaled{vm, name, signal}, c.t.tell(ctx, path.Join(dir, "exec", name, "ctl"), "signal "+fs.Quote(signal))
}
