package hostmcp

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"

	"hutch/fs"
)

type (
	snapshot struct {
		ID   string            `json:"id"`
		Name string            `json:"name"`
		Info map[string]string `json:"info"`
	}
	snapshots struct {
		Snapshots []snapshot `json:"snapshots"`
	}
	undone struct {
		Undo     string `json:"undo"`
		Time     string `json:"time"`
		Snapshot string `json:"snapshot"`
		What     string `json:"what"`
	}
	undoResult struct {
		stateOf
		Undone string `json:"undone"` // how many files were restored and removed, which, and how to take that back
	}
	undos struct {
		Undos []undone `json:"undos"`
	}
	difference struct {
		From      string   `json:"from"`
		To        string   `json:"to"`
		Lines     []string `json:"lines"` // what happened to which file
		Truncated bool     `json:"truncated,omitempty"`
	}
)

func (c *call) forkLive(ctx context.Context) (any, error) { return c.copyAs(ctx, "fork -live ") }

func (c *call) snapshot(ctx context.Context) (any, error) {
	name, dir := c.vm(), c.dir()
	snap := c.args.text("name")
	if snap == "" {
		snap = "at-" + time.Now().UTC().Format("20060102-150405.000")
	}
	if err := c.t.tell(ctx, dir+"/ctl", "snap "+fs.Quote(snap)); err != nil {
		return nil, err
	}
	return c.t.snapshot(ctx, name, snap)
}

func (t *tree) snapshot(ctx context.Context, vm, name string) (snapshot, error) {
	text, err := t.text(ctx, path.Join("vm", vm, "snap", name, "info"))
	return snapshot{vm, name, pairs(text)}, err
}

func (c *call) snapshots(ctx context.Context) (any, error) {
	name, dir := c.vm(), c.dir()
	names, err := c.t.folders(ctx, dir+"/snap")
	if err != nil {
		return nil, err
	}
	list := snapshots{[]snapshot{}}
	for _, n := range names {
		s, err := c.t.snapshot(ctx, name, n)
		if err == nil { // else it was dropped meanwhile
			list.Snapshots = append(list.Snapshots, s)
		}
	}
	return list, nil
}

func (c *call) revert(ctx context.Context) (any, error) {
	return c.control(ctx, "revert "+fs.Quote(c.args.text("name")))
}

func (c *call) undos(ctx context.Context) (any, error) {
	dir := c.dir()
	text, err := c.t.text(ctx, dir+"/undo")
	list := undos{[]undone{}}
	for line := range strings.Lines(text) {
		w, err := fs.LineWords(line, -1)
		if err != nil || len(w) != 4 {
			return nil, fmt.Errorf("%w: %s/undo says %.100q", fs.ErrIO, dir, line)
		}
		list.Undos = append(list.Undos, undone{w[0], w[1], w[2], w[3]})
	}
	return list, err
}

// undo undoes, and tells what came back, which the last line about it says.
func (c *call) undo(ctx context.Context) (any, error) {
	state, err := c.control(ctx, "undo "+fs.Quote(c.args.text("undo")))
	if err != nil {
		return nil, err
	}
	r := undoResult{stateOf: state}
	text, err := c.t.text(ctx, path.Join("vm", r.ID, "log/snapshots"))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		var told struct{ Event, Name, Text string }
		if json.Unmarshal([]byte(line), &told) == nil && told.Event == "undone" && told.Name == c.args.text("undo") {
			r.Undone = told.Text
		}
	}
	return r, nil
}

// maxDiff is the most lines that diff gives.
const maxDiff = 2000

func (c *call) diff(ctx context.Context) (any, error) {
	dir := c.dir()
	d := difference{From: c.args.text("from"), To: c.args.text("to"), Lines: []string{}}
	text, err := c.t.ask(ctx, dir+"/snap/diff", fs.QuoteAll([]string{d.From, d.To}))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		if len(d.Lines) == maxDiff {
			d.Truncated = true
			break
		}
		d.Lines = append(d.Lines, strings.TrimSuffix(line, "\n"))
	}
	return d, nil
}
