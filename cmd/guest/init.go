package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"hutch/relay/agent"
	"hutch/relay/forward"
	"hutch/relay/port"
)

// processors is how many of Go's processors the agent has at least: one stands
// still with each program that is started, until the kernel has read that.
const processors = 4

// runAgent serves the guest's tree to the host until SIGTERM. As an init it
// ends all processes then, but those that are to be kept.
func runAgent(verbose bool, c agent.Config) error {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	runtime.GOMAXPROCS(max(processors, runtime.GOMAXPROCS(0)))
	if c.Init {
		agent.Prepare()
	}
	c.Dial, c.Init = dial(port.Agent), os.Getpid() == 1
	c.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	a, err := agent.New(c)
	if err != nil {
		return err
	}
	if os.Getenv(port.NetVariable) == port.NetProxy {
		l, err := net.Listen("tcp4", port.ProxyAddress)
		if err != nil { // commands run all the same
			fmt.Fprintf(os.Stderr, "guest: no proxy: %v\n", err)
		} else {
			go forward.Serve(ctx, l, dial(port.Proxy)) // until this process ends
		}
	}
	return a.Run(ctx)
}
