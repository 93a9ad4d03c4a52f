package main

import (
	"bytes"
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
		text := io.Reader(f)
		if !*follow {
			whole, err := io.ReadAll(f)
			if err != nil && fs.Errno(err) != syscall.EAGAIN { // by which it says that this was all
				return cmp.Or(ctx.Err(), err)
			}
			text = bytes.NewReader(onceEach(whole))
		}
		if *asJSON {
			_, err = io.Copy(os.Stdout, text)
		} else {
			err = printCalls(text, *follow)
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

// onceEach leaves out the lines that begin a call which has ended.
func onceEach(text []byte) []byte {
	type line struct {
		ID    int64 `json:"id"`
		Begun bool  `json:"begun"`
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	read, ended := make([]line, len(lines)), map[int64]bool{}
	for i, text := range lines {
		if json.Unmarshal(text, &read[i]) == nil && !read[i].Begun {
			ended[read[i].ID] = true
		}
	}
	var kept []byte
	for i, text := range lines {
		if !read[i].Begun || !ended[read[i].ID] {
			kept = append(kept, text...)
		}
	}
	return kept
}

// printCalls prints lines of mcp/calls as a table; followed, as they come.
func printCalls(text io.Reader, follow bool) error {
	t := newTable(false, "TIME", "DECISION", "MS", "CALL", "WHAT")
	t.grid.width = width(os.Stdout)
	for lines := json.NewDecoder(text); ; {
		var l callLine
		if err := lines.Decode(&l); errors.Is(err, io.EOF) {
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
