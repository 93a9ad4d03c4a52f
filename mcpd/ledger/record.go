package ledger

import (
	"bytes"
	"errors"

	"hutch/aggd/rawjson"
)

// A Record is a line of a table: a JSON object of simple values. It is read as
// far as it is asked for, and nothing is copied.
type Record struct {
	table *Table
	line  []byte
	at    int    // where the next member begins
	next  int    // the column that it is likely to be of
	known uint64 // the columns that were met, a bit each
	spans [64]rawjson.Span
}

var errRecord = errors.New("it is no record")

// Value returns the JSON of the value of a column, by its place in the table. It
// is nil where the record has no such column: it is older than that.
func (r *Record) Value(column int) []byte {
	for r.known&(1<<column) == 0 {
		if more, err := r.step(); !more || err != nil {
			return nil
		}
	}
	return r.spans[column].Of(r.line)
}

// Line returns the line that the record is, without its end, until the next is at hand.
func (r *Record) Line() []byte { return r.line }

// begin has the record be a line, without its end.
func (r *Record) begin(line []byte) { r.line, r.at, r.next, r.known = line, 0, 0, 0 }

// check reads all of it.
func (r *Record) check() error {
	for {
		more, err := r.step()
		switch {
		case err != nil:
			return err
		case more:
		case r.known&1 == 0:
			return errRecord
		default:
			return nil
		}
	}
}

// step reads a member, and says whether there was one.
func (r *Record) step() (more bool, err error) {
	rest := r.line[r.at:]
	switch {
	case len(rest) == 1 && rest[0] == '}' && r.at > 0:
		return false, nil
	case len(rest) < 2 || r.at == 0 && rest[0] != '{' || r.at > 0 && rest[0] != ',':
		return false, errRecord
	}
	column, name := r.column(rest[1:])
	if name < 0 {
		return false, errRecord
	}
	start := r.at + 1 + name
	size := valueSize(r.line[start:])
	if size < 0 {
		return false, errRecord
	}
	r.at = start + size
	if column >= 0 {
		r.spans[column] = rawjson.Span{Start: start, End: r.at}
		r.known |= 1 << column
		r.next = column + 1
	}
	return true, nil
}

// column returns the column that a member is of, -1 if it is of none, and the
// length of its name with the colon, -1 if it is none.
func (r *Record) column(member []byte) (column, length int) {
	keys := r.table.keys
	if r.next < len(keys) && bytes.HasPrefix(member, keys[r.next]) {
		return r.next, len(keys[r.next])
	}
	for i, k := range keys {
		if bytes.HasPrefix(member, k) {
			return i, len(k)
		}
	}
	n := textSize(member)
	if n < 0 || n == len(member) || member[n] != ':' {
		return -1, -1
	}
	return -1, n + 1
}

// valueSize returns the length of the text, number or word at the beginning of b,
// -1 if there is none.
func valueSize(b []byte) int {
	if len(b) == 0 {
		return -1
	}
	switch c := b[0]; {
	case c == '"':
		return textSize(b)
	case c == '-', '0' <= c && c <= '9', c == 'n', c == 't', c == 'f':
		for i, c := range b {
			if c == ',' || c == '}' {
				return i
			}
		}
	}
	return -1
}

// textSize is valueSize of a text.
func textSize(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return -1
	}
	for i := 1; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n + 1
		escapes := 0
		for b[i-2-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i
		}
	}
}
