package child

import (
	"context"
	"errors"
	"fmt"
	"os"

	"hutch/aggd/process"
	"hutch/aggd/wire"
	"hutch/fs"
)

// supervise keeps a process running until ctx ends.
func (c *Child) supervise(ctx context.Context) {
	defer close(c.done)
	process.Keep(ctx, c.once, c.cfg.Down)
	c.set(nil, errClosed)
}

// once starts one process and returns why it ended.
func (c *Child) once(ctx context.Context) error {
	r, err := c.launch(ctx)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("%w: the aggregator %s is missing", fs.ErrNotExist, c.cfg.Path)
		} else {
			err = fmt.Errorf("%w: %w", fs.ErrIO, err)
		}
		c.set(nil, err)
		return err
	}
	c.cfg.Up()
	r.tasks.Go(func() { c.mend(ctx, r) })
	select {
	case <-r.p.Exited():
	case <-ctx.Done():
		r.end()
	}
	err = r.wait()
	c.set(nil, err)
	return err
}

// launch starts a process and tells it its servers and the declared clients.
func (c *Child) launch(ctx context.Context) (*run, error) {
	r, err := start(ctx, &c.cfg, c.host, c.inForce)
	if err != nil {
		return nil, err
	}
	err = c.define(ctx, c.definitions)
	if err == nil {
		err = c.introduce(r)
	}
	if err != nil {
		r.end()
		r.wait()
		return nil, err
	}
	return r, nil
}

// introduce tells a new process what it has to know first, and makes it the
// one that calls go to.
func (c *Child) introduce(r *run) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := r.putServers(c.servers); err != nil {
		return err
	}
	if err := r.request(c.ids.Add(1), wire.SetLimits, c.inForce()); err != nil {
		return err
	}
	for _, p := range c.clients {
		r.request(c.ids.Add(1), wire.Client, p)
	}
	c.run, c.cause = r, nil
	close(c.change)
	c.change = make(chan struct{})
	return nil
}
