package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"hutch/fs"
)

// An event is what a line of timeline tells.
type event struct {
	Time     time.Time `json:"timestamp"`
	Layer    string    `json:"layer"`
	Trace    string    `json:"trace_id"`
	Duration *float64  `json:"duration_ms"`
	Status   string    `json:"status"`
	Summary  string    `json:"summary"`
}

// moment is how tables show a time, which is that of where one looks.
const moment = "2006-01-02 15:04:05.000"

// tookText is how tables show a duration in milliseconds, which may not be known.
func tookText(d *float64) string {
	if d == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", *d)
}

// defineTimeline has the command that prints what happened in a VM, a server or a group.
func defineTimeline(flags *flag.FlagSet) action {
	var messages []string
	for _, w := range []struct{ flag, doc string }{
		{"trace", "what is part of the trace `ID`"},
		{"since", "what began no longer ago than `TIME`, as 10m, or at a time as 2006-01-02T15:04:05Z or after it"},
		{"until", "what began by `TIME`"},
		{"layer", "what is of the layers `LAYER,…`: vm mcp exec file net snapshot security ask"},
		{"limit", "the newest `N` lines, 1000 if not said, at most 10000"},
	} {
		flags.Func(w.flag, w.doc, func(value string) error {
			messages = append(messages, w.flag+" "+fs.Quote(value))
			return nil
		})
	}
	asJSON := flags.Bool("json", false, "print a JSON object a line")
	return connected(func(ctx context.Context, c *tree, args []string) error {
		dir, err := placeIn(c, args[0])
		if err != nil {
			return err
		}
		f, err := c.open(path.Join(dir, "timeline"), os.O_RDWR)
		if err != nil {
			return noPlace(c, dir, err)
		}
		defer f.closeWith(ctx)()
		for _, m := range messages {
			if err := tell(f, m); err != nil {
				return err
			}
		}
		text := io.NewSectionReader(f, 0, 1<<62)
		if *asJSON {
			_, err := io.Copy(os.Stdout, text)
			return err
		}
		return printTimeline(text)
	})
}

// printTimeline prints lines of a timeline as a table, in the time of the place.
func printTimeline(text io.Reader) error {
	t := newTable(false, "TIME", "LAYER", "STATUS", "MS", "TRACE", "WHAT")
	for lines := json.NewDecoder(text); ; {
		var e event
		if err := lines.Decode(&e); err == io.EOF {
			return t.flush()
		} else if err != nil {
			return fmt.Errorf("timeline: %w", err)
		}
		when := e.Time.Local().Format(moment)
		if err := t.row(nil, when, e.Layer, e.Status, tookText(e.Duration), cmp.Or(e.Trace, "-"), e.Summary); err != nil {
			return err
		}
	}
}
