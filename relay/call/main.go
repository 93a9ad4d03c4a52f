package call

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"hutch/relay/port"
)

// Main is the program: call [-json] [-n N [-c C] [-t D]] TOOL [JSON], whose requests
// are signed if it is sealed. It prints the text of
// the tool's result, or with -n what N calls took, and returns the status to
// exit with: 0, 1 for an error, 2 for wrong usage.
func Main(ctx context.Context, args []string, sealed bool, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("call", flag.ContinueOnError)
	flags.SetOutput(stderr)
	o := options{sealed: sealed}
	flags.IntVar(&o.n, "n", 0, "call it `N` times and print what that took")
	flags.IntVar(&o.at, "c", 1, "with -n: `C` calls at once")
	flags.DurationVar(&o.most, "t", 0, "with -n: begin no call after `D`")
	flags.BoolVar(&o.raw, "json", false, "print the whole result as JSON")
	usage := func() { fmt.Fprintln(stderr, "usage: hutch-relay call [-json] [-n N [-c C] [-t D]] TOOL [JSON]") }
	flags.Usage = func() {
		usage()
		flags.PrintDefaults()
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	if flags.NArg() < 1 || flags.NArg() > 2 || o.n < 0 || o.at < 1 || o.most < 0 {
		usage()
		return 2
	}
	toolArgs := json.RawMessage("{}")
	if flags.NArg() == 2 {
		if toolArgs = json.RawMessage(flags.Arg(1)); !json.Valid(toolArgs) {
			fmt.Fprintf(stderr, "call: arguments are not JSON: %s\n", flags.Arg(1))
			return 2
		}
	}
	failed, err := run(ctx, stdout, flags.Arg(0), toolArgs, o)
	if err != nil {
		fmt.Fprintf(stderr, "call: %v\n", err)
	}
	if failed || err != nil {
		return 1
	}
	return 0
}

type options struct {
	n, at int
	most  time.Duration
	raw   bool

	sealed bool
}

// run connects to the endpoint, calls a tool, and prints what came of it.
func run(ctx context.Context, w io.Writer, tool string, args json.RawMessage, o options) (failed bool, err error) {
	conn, err := port.Dial(ctx, port.MCP)
	if err != nil {
		return false, err
	}
	c, err := New(ctx, conn, "call", o.sealed)
	if err != nil {
		return false, err
	}
	defer c.Close()
	if o.n > 0 {
		load, err := c.Many(ctx, tool, args, o.n, o.at, o.most)
		if err != nil {
			return false, err
		}
		return false, json.NewEncoder(w).Encode(load)
	}
	result, err := c.Tool(ctx, tool, args)
	if err != nil {
		return false, err
	}
	return show(w, result, o.raw)
}

// show prints the texts of a result, or all of it where it has others, and
// says whether the tool reports an error.
func show(w io.Writer, result json.RawMessage, raw bool) (failed bool, err error) {
	var r struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
		IsError bool `json:"isError"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return false, fmt.Errorf("result: %w", err)
	}
	for _, c := range r.Content {
		raw = raw || c.Type != "text"
	}
	if raw || len(r.Content) == 0 {
		_, err := fmt.Fprintf(w, "%s\n", result)
		return r.IsError, err
	}
	for _, c := range r.Content {
		if _, err := fmt.Fprintln(w, c.Text); err != nil {
			return r.IsError, err
		}
	}
	return r.IsError, nil
}
