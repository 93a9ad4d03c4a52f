package guest

import (
	"context"
	"fmt"

	"hutch/fs"
	"hutch/fs/ninep/client"
)

// Execs returns the names of the guest's execs.
func (g *Guest) Execs(ctx context.Context) ([]string, error) {
	var names []string
	err := g.try(ctx, func(ctx context.Context, c *client.Conn) error {
		list, err := c.List(ctx, []string{"exec"})
		names = names[:0]
		for _, e := range list {
			names = append(names, e.Name)
		}
		return err
	})
	return names, err
}

// Exec returns the exec called name, if the guest has it.
func (g *Guest) Exec(ctx context.Context, name string) (*Exec, error) {
	if err := fs.CheckName(name); err != nil {
		return nil, err
	}
	err := g.try(ctx, func(ctx context.Context, c *client.Conn) error {
		return c.At(ctx, []string{"exec", name}, func(*client.Fid) error { return nil })
	})
	if err != nil {
		return nil, fmt.Errorf("%w: exec %s", err, name)
	}
	return newExec(g, name), nil
}

// MakeExec makes an exec called name.
func (g *Guest) MakeExec(ctx context.Context, name string) (*Exec, error) {
	if err := fs.CheckName(name); err != nil {
		return nil, err
	}
	err := g.once(ctx, func(ctx context.Context, c *client.Conn) error {
		return g.inExecs(ctx, c, func(dir *client.Fid) error { return dir.Mkdir(ctx, name, 0o755) })
	})
	if err != nil {
		return nil, g.explain(ctx, err, "err")
	}
	e := newExec(g, name)
	e.openEarly()
	return e, nil
}

// inExecs does f with the fid of the directory of execs, which is kept.
func (g *Guest) inExecs(ctx context.Context, c *client.Conn, f func(*client.Fid) error) error {
	g.mu.Lock()
	dir := g.execs
	g.mu.Unlock()
	if dir != nil && dir.Conn() == c {
		return f(dir)
	}
	dir, err := c.Walk(ctx, []string{"exec"})
	if err != nil {
		return err
	}
	g.mu.Lock()
	keep := g.conn == c && g.execs == nil
	if keep {
		g.execs = dir
	}
	g.mu.Unlock()
	if !keep { // another was faster
		defer dir.Clunk()
	}
	return f(dir)
}
