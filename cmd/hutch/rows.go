package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"hutch/fs"
)

// modes are the ways to print rows.
var modes = []string{"table", "csv", "json"}

// atOnceRows is how many rows of a table have columns of one width: more are not
// waited for.
const atOnceRows = 1000

// printRows prints rows, a JSON object a line, in a way of modes. What came before
// an error is printed.
func printRows(w io.Writer, mode string, r io.Reader) error {
	if mode == "json" {
		_, err := io.Copy(w, r)
		return err
	}
	out := &grid{w: bufio.NewWriter(w), csv: mode == "csv", width: width(w)}
	in := json.NewDecoder(bufio.NewReaderSize(r, 128<<10))
	for {
		names, cells, err := decodeRow(in)
		if err == nil {
			err = out.add(names, cells)
		}
		if errors.Is(err, io.EOF) {
			return out.flush()
		}
		if err != nil {
			out.flush()
			return err
		}
	}
}

// width returns how many letters fit on a line, 0 if any number does.
func width(w io.Writer) int {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil {
			return n
		}
	}
	return 0
}

// A cellText is a value of a row as it is printed.
type cellText struct {
	text   string
	number bool
	colour int // as terminals number them; 0: none
}

// decodeRow reads an object, whose members have an order.
func decodeRow(in *json.Decoder) (names []string, cells []cellText, err error) {
	if _, err := in.Token(); err != nil {
		return nil, nil, err
	}
	for in.More() {
		name, err := in.Token()
		if err != nil {
			return nil, nil, err
		}
		var value json.RawMessage
		if err := in.Decode(&value); err != nil {
			return nil, nil, err
		}
		names = append(names, fmt.Sprint(name))
		cells = append(cells, cellOf(value))
	}
	_, err = in.Token()
	return names, cells, err
}

func cellOf(value json.RawMessage) cellText {
	var s string
	switch {
	case bytes.Equal(value, []byte("null")):
		return cellText{}
	case json.Unmarshal(value, &s) == nil:
		return cellText{text: s}
	}
	return cellText{text: string(value), number: true}
}

// A grid prints rows as CSV, or in columns. Its names are those of the first row
// unless they are said before.
type grid struct {
	w      *bufio.Writer
	csv    bool
	width  int  // of the terminal that columns are to fit; 0: none
	headed bool // the names are printed
	names  []string
	rows   [][]cellText
	widths []int // of the columns that are printed
}

func (g *grid) add(names []string, cells []cellText) error {
	if g.names == nil {
		g.names = names
	}
	if g.rows = append(g.rows, cells); len(g.rows) == atOnceRows {
		if err := g.print(); err != nil {
			return err
		}
	}
	return nil
}

func (g *grid) flush() error {
	if err := g.print(); err != nil {
		return err
	}
	return g.w.Flush()
}

// print prints the rows that wait, under the names if they are the first.
func (g *grid) print() error {
	rows := g.rows
	g.rows = nil
	if len(g.names) > 0 && !g.headed {
		head := make([]cellText, len(g.names))
		for i, name := range g.names {
			head[i].text, head[i].number = name, !g.csv && len(rows) > 0 && rows[0][i].number
		}
		rows = append([][]cellText{head}, rows...)
		g.headed = true
	}
	if g.csv {
		return g.printCSV(rows)
	}
	return g.printTable(rows)
}

func (g *grid) printCSV(rows [][]cellText) error {
	w := csv.NewWriter(g.w)
	for _, r := range rows {
		record := make([]string, len(r))
		for i := range r {
			record[i] = r[i].text
		}
		if err := w.Write(record); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

// visible has blanks that would end a cell or its line seen.
var visible = strings.NewReplacer("\n", `\n`, "\t", `\t`, "\r", `\r`)

func (g *grid) printTable(rows [][]cellText) error {
	widths := g.widths
	for _, r := range rows {
		for i := range r {
			r[i].text = fs.PlainLine(visible.Replace(r[i].text))
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(r[i].text))
		}
	}
	g.widths = widths
	if g.width > 0 {
		fit(widths, g.width-2*(len(widths)-1))
	}
	for _, r := range rows {
		var line strings.Builder
		for i, c := range r {
			c.text = cut(c.text, widths[i])
			blanks := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text))
			if c.colour != 0 {
				c.text = fmt.Sprintf("\x1b[%dm%s\x1b[%dm", c.colour, c.text, defaultColour)
			}
			if c.number {
				line.WriteString(blanks + c.text + "  ")
			} else {
				line.WriteString(c.text + blanks + "  ")
			}
		}
		if _, err := g.w.WriteString(strings.TrimRight(line.String(), " ") + "\n"); err != nil {
			return err
		}
	}
	return nil
}

// leastWidth is that of a column of which something is to be seen.
const leastWidth = 4

// fit makes the widest columns narrower until all take no more than room.
func fit(widths []int, room int) {
	total := 0
	for _, w := range widths {
		total += w
	}
	for total > room {
		widest := 0
		for i, w := range widths {
			if w > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= leastWidth {
			return
		}
		widths[widest]--
		total--
	}
}
