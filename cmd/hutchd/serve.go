package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"hutch/cmd/hutchd/tree"
)

// serve runs the service until ctx is done. On the way out the mount goes
// first, so that no new work comes from there, then the 9P connections, then
// the tree with the anonymous VMs.
func serve(ctx context.Context, o options) error {
	ctx, shutdown := context.WithCancel(ctx)
	defer shutdown()
	state, err := filepath.Abs(o.state)
	if err != nil {
		return err
	}
	o.state = state
	if err := os.MkdirAll(filepath.Join(o.state, "log"), 0o700); err != nil {
		return err
	}
	lock, err := lockState(o.state)
	if err != nil {
		return err
	}
	defer lock.Close()
	defer context.AfterFunc(ctx, func() { tellEnding(lock) })()
	l := openLogs(o)
	defer l.close()

	f := newFront(l.log)
	cfg := config(o, l)
	cfg.Shutdown, cfg.Gauges, cfg.Mount, cfg.Gone = shutdown, f.metrics, f.mounted, f.gone
	tree, err := tree.New(cfg)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := tree.Close(ctx); err != nil {
			l.log.Error("not closed in order", "err", err)
		}
	}()
	return f.serve(ctx, o, tree)
}
