package mcpd

import (
	"fmt"

	"hutch/aggd/child"
	"hutch/aggd/programs"
	"hutch/fs"
)

// Start starts the aggregator; servers connect in the background. The
// aggregator lives until Stop.
func (e *Endpoint) Start() error {
	if err := e.start(); err != nil {
		return err
	}
	e.refresh() // Up may have come before there was an aggregator to ask
	return nil
}

func (e *Endpoint) start() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return fmt.Errorf("%w: the endpoint is closed", fs.ErrBusy)
	}
	if e.aggregator.Load() != nil || e.cfg.AggdPath == "" {
		return nil
	}
	c, err := child.Start(e.ctx, child.Config{
		Path: e.cfg.AggdPath, Servers: e.rules.Load().list, Limits: *e.limits.Load(), Log: e.log, Show: e.preview, Resolve: e.cfg.Resolve, Start: e.cfg.Start,
		Notify: e.notified, Request: e.asked, Down: e.down, Up: e.up,
	})
	if err != nil {
		return fmt.Errorf("aggregator: %w", err)
	}
	for _, p := range e.declared {
		c.Client(p) // of sessions that outlived the last one
	}
	e.aggregator.Store(c)
	return nil
}

// Stop ends the aggregator and waits for it. Sessions go on without servers.
func (e *Endpoint) Stop() error {
	c := e.aggregator.Swap(nil)
	e.catalogs.empty()
	if c == nil {
		return nil
	}
	err := c.Close()
	e.log.Flush()
	e.forgetClients()
	return err
}

// Programs returns the stdio servers that run.
func (e *Endpoint) Programs() []programs.Process {
	if c := e.aggregator.Load(); c != nil {
		return c.Programs()
	}
	return nil
}

// AggregatorPID returns the process id of the aggregator, 0 while none runs.
func (e *Endpoint) AggregatorPID() int {
	if c := e.aggregator.Load(); c != nil {
		return c.PID()
	}
	return 0
}

// AggregatorTrouble returns why no aggregator runs that should, else "".
func (e *Endpoint) AggregatorTrouble() string {
	if why := e.trouble.Load(); why != nil && e.aggregator.Load() != nil {
		return *why
	}
	return ""
}

// child returns the aggregator, or the error that says why there is none.
func (e *Endpoint) child() (*child.Child, error) {
	if c := e.aggregator.Load(); c != nil {
		return c, nil
	}
	if e.cfg.AggdPath == "" {
		return nil, fmt.Errorf("%w: there is no aggregator program", fs.ErrUnsupported)
	}
	return nil, fmt.Errorf("%w: the machine is not running", fs.ErrBusy)
}
