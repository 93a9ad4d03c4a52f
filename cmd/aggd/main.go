// Aggd is the aggregator: a child of hutchd, one for each VM, that alone holds the
// network and the credentials of external MCP servers. See aggd(8).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"hutch/aggd"
	"hutch/aggd/alone"
	"hutch/aggd/confine"
	"hutch/aggd/programs"
	"hutch/aggd/wire"
)

func main() {
	var cfg aggd.Config
	flag.Usage = usage
	limits := &cfg.Limits
	flag.Int64Var(&limits.MaxRequest, "max-request", number("AGGD_MAX_REQUEST", wire.MaxRequest), "the longest request to a server, in `bytes`")
	flag.Int64Var(&limits.MaxResult, "max-result", number("AGGD_MAX_RESULT", wire.MaxResult), "the longest message from a server, in `bytes`")
	flag.IntVar(&limits.MaxDepth, "max-depth", wire.MaxDepth, "how `deep` a message from a server may be nested")
	flag.DurationVar(&cfg.ListWait, "list-wait", 0, "how long a list waits for servers that are late (5s)")
	socket := flag.Int("programs", 0, "the `descriptor` of a socket to hutchd, which starts stdio servers (none)")
	file := flag.String("serve", "", "serve the mcpServers of a `file` as one MCP server")
	separator := flag.String("separator", ":", "with -serve, `what` stands between a server's key and a name")
	safe := flag.Bool("safe-names", false, "with -serve, give tools names that every client takes")
	all := flag.Bool("all", false, "with -serve, serve resources and prompts too, and tell of changes")
	flag.Parse()
	if flag.NArg() > 0 || min(limits.MaxRequest, limits.MaxResult, int64(limits.MaxDepth)) <= 0 {
		usage()
		os.Exit(2)
	}
	cfg.Log = os.Stderr
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	if *file != "" {
		serve(ctx, *file, alone.Config{Separator: *separator, Safe: *safe, All: *all, ListWait: cfg.ListWait, Limits: *limits})
		return
	}
	if err := confine.Enter(max(2, *socket)); err != nil {
		fail(err)
	}
	if *socket > 0 {
		c, err := programs.NewClient(uintptr(*socket))
		if err != nil {
			fail(err)
		}
		defer c.Close()
		cfg.Programs = c
	}
	if err := aggd.Run(ctx, cfg, input(ctx), os.Stdout); err != nil && !errors.Is(err, fs.ErrClosed) {
		fail(err)
	}
}

// input returns the standard input, closed when ctx ends.
func input(ctx context.Context) io.Reader {
	in := breakable(os.Stdin)
	context.AfterFunc(ctx, func() { in.Close() })
	return in
}

// breakable returns the file so that reads and writes of it end when it is closed, if
// it is a pipe or a socket.
func breakable(f *os.File) *os.File {
	fd := f.Fd() // which may have it block
	if info, err := f.Stat(); err != nil || info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) == 0 || syscall.SetNonblock(int(fd), true) != nil {
		return f
	}
	return os.NewFile(fd, f.Name())
}

func number(env string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(os.Getenv(env), 10, 64); err == nil {
		return n
	}
	return otherwise
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "aggd: %v\n", err)
	os.Exit(1)
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: aggd [-max-request bytes] [-max-result bytes] [-max-depth deep] [-list-wait duration] [-programs descriptor] | -serve file [-separator what] [-safe-names] [-all]")
	flag.PrintDefaults()
}
