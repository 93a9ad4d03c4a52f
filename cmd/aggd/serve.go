package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"hutch/aggd/alone"
)

// serve serves the servers of a file on the standard input and output. The aggregator
// is this program again, confined.
func serve(ctx context.Context, file string, cfg alone.Config) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // of a client that is gone: the write tells
	dir, err1 := os.Getwd()
	program, err2 := os.Executable()
	if err := errors.Join(err1, err2, alone.CheckSeparator(cfg.Separator)); err != nil {
		fail(err)
	}
	servers, err := alone.ReadFile(file, dir, os.Environ())
	if err != nil {
		fail(err)
	}
	cfg.Servers, cfg.Aggregator, cfg.Log = servers, program, os.Stderr
	err = alone.Serve(ctx, cfg, input(ctx), breakable(os.Stdout))
	if err != nil && !errors.Is(err, fs.ErrClosed) { // which is the signal's doing
		fail(err)
	}
}
