package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"
	"os"

	"golang.org/x/term"
)

// A table is rows that are printed in columns, in colour on a terminal, or
// each as a JSON object on a line.
type table struct {
	json   bool
	grid   grid
	colour bool
}

func newTable(asJSON bool, columns ...string) *table {
	return &table{
		json:   asJSON,
		grid:   grid{w: bufio.NewWriter(os.Stdout), names: columns},
		colour: term.IsTerminal(1) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
	}
}

// row prints v, or its cells. A state is in its colour.
func (t *table) row(v any, cells ...string) error {
	if t.json {
		return printJSON(os.Stdout, v)
	}
	row := make([]cellText, len(cells))
	for i, text := range cells {
		row[i].text = text
		if t.colour && t.grid.names[i] == "STATE" {
			row[i].colour = cmp.Or(states[text], defaultColour)
		}
	}
	return t.grid.add(nil, row)
}

// states are the colours of those that stand out.
var states = map[string]int{"running": 32, "ready": 32, "failed": 31, "suspended": 33, "starting": 36, "stopping": 36, "unhealthy": 31, "degraded": 33, "error": 31, "unauthenticated": 33, "auth_retrying": 33, "ok": 32, "warn": 33, "fail": 31}

const defaultColour = 39

func (t *table) flush() error {
	if t.json {
		return nil
	}
	return t.grid.flush()
}

// printJSON prints v on a line.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
