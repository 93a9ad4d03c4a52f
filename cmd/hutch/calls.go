package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
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
		var to io.Writer = os.Stdout
		table := newCallTable(*follow)
		if !*asJSON {
			to = table
		}
		mode := os.O_RDONLY
		if !*follow {
			mode |= syscall.O_NONBLOCK
		}
		err = copyFile(ctx, c, to, path.Join(dir, "mcp", "calls"), mode)
		if !*follow && fs.Errno(err) == syscall.EAGAIN {
			err = nil // that was all
		}
		if !*asJSON {
			err = cmp.Or(err, table.flush())
		}
		return noPlace(c, dir, err)
	})
}

// A call is what a line of mcp/calls tells, as far as a table has it.
type callLine struct {
	Time     time.Time `json:"timestamp"`
	Method   string    `json:"method"`
	Tool     string    `json:"tool_name"`
	Decision string    `json:"decision"`
	Duration *float64  `json:"duration_ms"`
	Request  string    `json:"request_preview"`
	Error    string    `json:"error_message"`
}

// A callTable prints lines of mcp/calls that are written to it as a table, if it follows
// at the end of each write.
type callTable struct {
	*table
	follow bool
	rest   []byte // of a line
}

func newCallTable(follow bool) *callTable {
	t := &callTable{table: newTable(false, "TIME", "DECISION", "MS", "CALL", "WHAT"), follow: follow}
	t.grid.width = width(os.Stdout)
	return t
}

func (t *callTable) Write(p []byte) (int, error) {
	t.rest = append(t.rest, p...)
	for {
		line, rest, found := bytes.Cut(t.rest, []byte("\n"))
		if !found {
			break
		}
		t.rest = rest
		if err := t.line(line); err != nil {
			return 0, err
		}
	}
	if t.follow {
		return len(p), t.flush()
	}
	return len(p), nil
}

func (t *callTable) line(text []byte) error {
	var l callLine
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf("%w: mcp/calls says %.100q", fs.ErrIO, text)
	}
	took := "-"
	if l.Duration != nil {
		took = strconv.FormatFloat(*l.Duration, 'f', 1, 64)
	}
	what := cut(cmp.Or(l.Error, l.Request), 200)
	return t.row(nil, l.Time.Local().Format(moment), cmp.Or(l.Decision, "-"), took, cmp.Or(l.Tool, l.Method), what)
}
