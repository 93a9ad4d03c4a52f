package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hutch/aggd/confine"
	"hutch/cmd/hutchd/tree"
)

// serve runs the service until ctx is done. On the way out the mount goes
// first, so that no new work comes from there, then the 9P connections, then
// the tree with the anonymous VMs.
func serve(ctx context.Context, o options) error {
	ctx, shutdown := context.WithCancel(ctx)
	defer shutdown()
	lacks := confine.Lacking()
	if o.strict && len(lacks) > 0 {
		return fmt.Errorf("this machine cannot confine the network's processes: %s", strings.Join(lacks, "; "))
	}
	state, err := filepath.Abs(o.state)
	if err != nil {
		return err
	}
	o.state = state
	if err := os.MkdirAll(filepath.Join(o.state, "log"), 0o700); err != nil {
		return err
	}
	lock, err := lockState(ctx, o.state)
	if err != nil {
		return err
	}
	defer lock.Close()
	// When ctx is done the lock says so. What is deferred is the stop function
	// that AfterFunc returns, for a lock that is closed before that.
	defer context.AfterFunc(ctx, func() { tellEnding(lock) })()
	l := openLogs(o)
	defer l.close()

	for _, lack := range lacks {
		l.log.Warn("not all that confines the network's processes is here", "without", lack)
	}
	f := newFront(l.log)
	cfg := treeConfig(o, l)
	cfg.Shutdown, cfg.Gauges, cfg.Mount, cfg.Gone = shutdown, f.metrics, f.mounted, f.gone
	s, err := tree.New(cfg)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			l.log.Error("not closed in order", "err", err)
		}
	}()
	return f.serve(ctx, o, s)
}
