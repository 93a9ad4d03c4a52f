package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"
)

// A table is rows that are printed in columns, in colour on a terminal, or
// each as a JSON object on a line.
type table struct {
	json   bool
	w      *tabwriter.Writer
	colour bool
}

func newTable(asJSON bool, columns ...string) *table {
	t := &table{
		json:   asJSON,
		w:      tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0),
		colour: term.IsTerminal(1) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
	}
	for i, c := range columns {
		if c == "STATE" {
			columns[i] = t.state(c)
		}
	}
	if !asJSON {
		t.row(nil, columns...)
	}
	return t
}

// row prints v, or its cells.
func (t *table) row(v any, cells ...string) error {
	if t.json {
		return printJSON(os.Stdout, v)
	}
	_, err := fmt.Fprintln(t.w, strings.Join(cells, "\t"))
	return err
}

// states are the colours of those that stand out.
var states = map[string]int{"running": 32, "ready": 32, "failed": 31, "suspended": 33, "starting": 36, "stopping": 36}

// state returns a cell in the colour of the state in it. All are of the same
// length beside the text, that of the column's heading too.
func (t *table) state(s string) string {
	if !t.colour {
		return s
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[39m", cmp.Or(states[s], 39), s)
}

func (t *table) flush() error { return t.w.Flush() }

// printJSON prints v on a line.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
