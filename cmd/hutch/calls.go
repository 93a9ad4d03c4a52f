package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"syscall"
	"time"

	"hutch/fs"
)

// defineCalls has the command that prints the MCP calls of a VM, a server or a group from
// the first on.
func defineCalls(flags *flag.FlagSet) action {
	follow := flags.Bool("f", false, "go on as more come, until interrupted")
	asJSON := flags.Bool("json", false, "print a JSON object a line")
	return connected(func(ctx context.Context, c *tree, args []string) error {
		dir, err := placeIn(c, args[0])
		if err != nil {
			return err
		}
		mode := os.O_RDONLY
		if !*follow {
			mode |= syscall.O_NONBLOCK
		}
		f, err := c.open(path.Join(dir, "mcp", "calls"), mode)
		if err != nil {
			return noPlace(c, dir, err)
		}
		defer f.closeWith(ctx)()
		if *asJSON {
			_, err = io.Copy(os.Stdout, f)
		} else {
			err = printCalls(f, *follow)
		}
		if fs.Errno(err) == syscall.EAGAIN {
			err = nil // that was all
		}
		return cmp.Or(ctx.Err(), err)
	})
}

// A callLine is what a line of mcp/calls tells, as far as a table has it.
type callLine struct {
	Time     time.Time `json:"timestamp"`
	Method   string    `json:"method"`
	Tool     string    `json:"tool_name"`
	Decision string    `json:"decision"`
	Duration *float64  `json:"duration_ms"`
	Request  string    `json:"request_preview"`
	Error    string    `json:"error_message"`
}

// printCalls prints lines of mcp/calls as a table; followed, as they come.
func printCalls(text io.Reader, follow bool) error {
	t := newTable(false, "TIME", "DECISION", "MS", "CALL", "WHAT")
	t.grid.width = width(os.Stdout)
	for lines := json.NewDecoder(text); ; {
		var l callLine
		if err := lines.Decode(&l); errors.Is(err, io.EOF) || fs.Errno(err) == syscall.EAGAIN {
			return t.flush()
		} else if err != nil {
			return fmt.Errorf("mcp/calls: %w", err)
		}
		what := cut(cmp.Or(l.Error, l.Request), 200)
		err := t.row(nil, l.Time.Local().Format(moment), cmp.Or(l.Decision, "-"), tookText(l.Duration), cmp.Or(l.Tool, l.Method), what)
		if more, _ := lines.Buffered().Read(make([]byte, 2)); follow && more < 2 && err == nil {
			err = t.flush() // there is no other yet
		}
		if err != nil {
			return err
		}
	}
}
