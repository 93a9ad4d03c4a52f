package query

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"hutch/fs"
	"hutch/mcpd/ledger"
)

// A table is one of the ledgers' tables, for one statement.
type table struct {
	s     *Statement
	place int // in ledger.Tables
}

// register declares the tables to SQLite.
func (s *Statement) register() error {
	for i := range ledger.Tables {
		of := &ledger.Tables[i]
		err := sqlite3.CreateModule(s.conn, of.Name, nil, func(c *sqlite3.Conn, _, _, _ string, _ ...string) (*table, error) {
			if err := c.DeclareVTab(declaration(of, s.from.All, "", ", ", "")); err != nil {
				return nil, err
			}
			return &table{s, i}, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// The constraints that are looked at before rows are given to SQLite, which
// looks at all of them again: a column and an operator, a letter each.
const (
	byVM   = 'v'
	byID   = 'i'
	byTime = 't'
)

var operators = map[sqlite3.IndexConstraintOp]byte{
	sqlite3.INDEX_CONSTRAINT_EQ: '=',
	sqlite3.INDEX_CONSTRAINT_GT: '>', sqlite3.INDEX_CONSTRAINT_GE: '>',
	sqlite3.INDEX_CONSTRAINT_LT: '<', sqlite3.INDEX_CONSTRAINT_LE: '<',
}

// column returns what a column is constrained by, 0 if by nothing.
func (t *table) column(n int) byte {
	switch {
	case n < 0: // the row's own number
		return 0
	case t.s.from.All && n == 0:
		return byVM
	case t.s.from.All:
		n--
	}
	switch n {
	case 0:
		return byID
	case 1:
		return byTime
	}
	return 0
}

// BestIndex chooses how a query reads the table.
func (t *table) BestIndex(info *sqlite3.IndexInfo) error {
	var plan strings.Builder
	info.EstimatedCost, info.EstimatedRows = 1e6, 1e5
	for i, c := range info.Constraint {
		column, op := t.column(c.Column), operators[c.Op]
		if !c.Usable || column == 0 || op == 0 || column == byVM && op != '=' || column != byID && info.Collation(i) != "BINARY" {
			continue
		}
		plan.WriteByte(column)
		plan.WriteByte(op)
		info.ConstraintUsage[i].ArgvIndex = plan.Len() / 2
		less := int64(4)
		if op == '=' {
			less = 10_000
		}
		info.EstimatedRows = max(info.EstimatedRows/less, 1)
		info.EstimatedCost = max(info.EstimatedCost/float64(less), 100)
	}
	info.IdxStr = plan.String()
	if !t.s.from.All || strings.Contains(info.IdxStr, "v=") {
		order := t.order(info.OrderBy)
		info.IdxNum, info.OrderByConsumed = int(order), order != ledger.ByLine
	}
	return nil
}

// order returns the order of the rows that a query wants, or theirs.
func (t *table) order(by []sqlite3.IndexOrderBy) ledger.Order {
	var columns string
	for _, o := range by {
		if o.Desc != by[0].Desc {
			return ledger.ByLine
		}
		columns += string(t.column(o.Column))
	}
	order := map[string]ledger.Order{"i": ledger.ByID, "t": ledger.ByTime, "ti": ledger.ByTime}[columns]
	if order != ledger.ByLine && by[0].Desc {
		order++
	}
	return order
}

// Open returns a cursor.
func (t *table) Open() (sqlite3.VTabCursor, error) { return &cursor{table: t}, nil }

// A cursor is a place in the rows of a table, of one ledger after the other.
type cursor struct {
	*table
	vm      *string // the only one that is wanted; nil: any
	within  ledger.Range
	order   ledger.Order
	sources []int // that are left
	source  int   // at hand
	rows    *ledger.Rows
	blocks  int // of rows that were read
	ended   bool
	text    []byte // of a value
}

// Filter begins a search.
func (c *cursor) Filter(order int, plan string, args ...sqlite3.Value) error {
	c.order = ledger.Order(order)
	c.blocks = 0
	c.vm, c.within, c.rows, c.ended, c.sources = nil, ledger.All, nil, false, c.sources[:0]
	for i, arg := range args {
		c.narrow(plan[2*i], plan[2*i+1], arg)
	}
	for i := range c.s.sources {
		if c.vm == nil || c.s.sources[i].VM == *c.vm {
			c.sources = append(c.sources, i)
		}
	}
	return c.Next()
}

// narrow has the search leave out what a constraint excludes. What SQLite would
// convert before it compares is left to SQLite.
func (c *cursor) narrow(column, op byte, arg sqlite3.Value) {
	w := &c.within
	switch kind := arg.Type(); {
	case column == byID && kind == sqlite3.INTEGER:
		id := uint64(max(arg.Int64(), 0))
		if op != '<' {
			w.MinID = max(w.MinID, id)
		}
		if op != '>' {
			w.MaxID = min(w.MaxID, id)
		}
	case kind != sqlite3.TEXT:
	case column == byVM:
		vm := arg.Text()
		c.vm = &vm
	case column == byTime:
		when := arg.Text()
		if op != '<' {
			w.MinTime = max(w.MinTime, when)
		}
		if op != '>' && (w.MaxTime == "" || when < w.MaxTime) {
			w.MaxTime = when
		}
	}
}

// Next goes to the next row. It looks at the time, since what is done with a row
// may take some of it.
func (c *cursor) Next() error {
	if c.s.ctx.Err() != nil {
		return sqlite3.INTERRUPT
	}
	for {
		if c.rows == nil {
			if more, err := c.open(); !more || err != nil {
				c.ended = true
				return c.s.failed(err)
			}
		}
		more, err := c.rows.Next()
		if err != nil {
			return c.s.failed(c.about(err))
		}
		if more {
			if c.rows.Blocks != c.blocks {
				c.blocks = c.rows.Blocks
				c.s.giveWay(c.source)
			}
			return nil
		}
		c.rows, c.blocks = nil, 0
	}
}

// open opens the table of the next ledger, and says whether there is one. A VM
// that was removed meanwhile has none.
func (c *cursor) open() (bool, error) {
	for len(c.sources) > 0 {
		c.source = c.sources[0]
		c.sources = c.sources[1:]
		snapshot, err := c.s.snapshot(c.source)
		if err == nil {
			c.rows, err = snapshot.Rows(c.s.ctx, c.place, c.within, c.order)
		}
		switch {
		case err == nil:
			return true, nil
		case !c.s.from.All || !fs.Is(err, fs.ErrNotExist):
			return false, c.about(err)
		}
	}
	return false, nil
}

// about says which VM an error is about.
func (c *cursor) about(err error) error {
	if !c.s.from.All {
		return err
	}
	return fmt.Errorf("vm %s: %w", c.s.sources[c.source].VM, err)
}

// EOF says whether there is no row.
func (c *cursor) EOF() bool { return c.ended }

// RowID returns a number that no other row of the table has.
func (c *cursor) RowID() (int64, error) { return int64(c.source)<<44 | c.rows.Offset, nil }

// Column gives SQLite a column of the row.
func (c *cursor) Column(to sqlite3.Context, n int) (err error) {
	if c.s.from.All {
		n--
	}
	switch n {
	case -1:
		defer recovered(&err)
		to.ResultText(c.s.sources[c.source].VM)
		return nil
	case 0:
		to.ResultInt64(int64(c.rows.ID))
		return nil
	case 1:
		defer recovered(&err)
		to.ResultRawText(c.rows.Time)
		return nil
	}
	v := c.rows.Record.Value(n)
	switch {
	case len(v) == 0 || v[0] == 'n':
		to.ResultNull()
	case v[0] == '"':
		defer recovered(&err)
		c.text = appendUnquoted(slices.Grow(c.text[:0], len(v)), v)
		to.ResultRawText(c.text)
	case ledger.Tables[c.place].Columns[n].Type == "REAL":
		to.ResultFloat(float(v))
	default:
		number(to, v)
	}
	return nil
}
