// Locald serves the built-in tools that use the network as an MCP server on its
// standard input and output. It is a child of aggd. See locald(8).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"hutch/aggd"
	"hutch/aggd/local"
)

func main() {
	var cfg local.Config
	flag.Usage = usage
	allow := flag.String("allow-private", os.Getenv("LOCALD_ALLOW_PRIVATE"), "`hosts` and CIDRs, with commas between, that may be reached though they are not public")
	flag.Int64Var(&cfg.MaxBody, "max-body", 10<<20, "the most `bytes` of a page that are read")
	flag.DurationVar(&cfg.Timeout, "timeout", 0, "the longest a call may take (30s)")
	flag.Parse()
	if flag.NArg() > 0 {
		usage()
		os.Exit(2)
	}
	if err := aggd.Harden(); err != nil {
		fail(err)
	}
	cfg.AllowPrivate = strings.Split(*allow, ",")
	cfg.Version = "1"
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

func fail(err error) {
	fmt.Fprintf(os.Stderr, "locald: %v\n", err)
	os.Exit(1)
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: locald [-allow-private hosts] [-max-body bytes] [-timeout duration]")
	flag.PrintDefaults()
}
