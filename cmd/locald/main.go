// Locald reaches the network for guests. As a child of aggd it serves the
// built-in tools that fetch, as an MCP server on its standard input and output;
// as a child of hutchd it is the proxy of one VM, or its storage. See locald(8).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"hutch/aggd/confine"
	"hutch/aggd/local"
	"hutch/aggd/proxy"
	"hutch/aggd/storage/s3"
	"hutch/aggd/wire"
)

// modes are what it can be beside the built-in tools.
var modes = map[string]func() error{
	"proxy":   serveProxy,
	"storage": func() error { return s3.Serve(os.Stdin, os.Stdout) },
}

func main() {
	var cfg local.Config
	flag.Usage = usage
	allow := flag.String("allow-private", "", "`hosts` and CIDRs, with commas between, that may be reached though they are not public")
	flag.Int64Var(&cfg.MaxBody, "max-body", 10<<20, "the most `bytes` of a page that are read")
	flag.DurationVar(&cfg.Timeout, "timeout", 0, "the longest a call may take (30s)")
	flag.BoolVar(&cfg.Stay, "stay", false, "follow no redirect to another host or port")
	flag.Parse()
	serve, ok := modes[flag.Arg(0)]
	if flag.NArg() > 1 || flag.NArg() == 1 && !ok {
		usage()
		os.Exit(2)
	}
	if err := confine.Enter(2); err != nil {
		fail(err)
	}
	if ok {
		if err := serve(); err != nil {
			fail(err)
		}
		return
	}
	cfg.AllowPrivate = strings.Split(*allow, ",")
	s, err := local.New(cfg)
	if err != nil {
		fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, func() { os.Exit(0) }) // it keeps nothing
	if err := s.Serve(ctx, os.Stdin, os.Stdout); err != nil {
		fail(err)
	}
}

// serveProxy serves the connections that come on the standard input until that ends.
func serveProxy() error {
	in, err := wire.InheritSocket(0, proxy.MaxLine)
	if err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	return proxy.Serve(context.Background(), in, os.Stdout, os.Stderr)
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "locald: %v\n", err)
	os.Exit(1)
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: locald [-allow-private hosts] [-max-body bytes] [-timeout duration] [-stay] [proxy | storage]")
	flag.PrintDefaults()
}
