package query

import (
	"bytes"
	"encoding/hex"
	"math"
	"strconv"

	"github.com/ncruces/go-sqlite3"

	"hutch/aggd/rawjson"
	"hutch/fs"
)

// appendUnquoted appends the text of a JSON string.
func appendUnquoted(b, value []byte) []byte {
	text := value[1 : len(value)-1]
	if bytes.IndexByte(text, '\\') < 0 {
		return append(b, text...)
	}
	return append(b, rawjson.String(value)...)
}

// number gives SQLite a number that stands in JSON.
func number(to sqlite3.Context, v []byte) {
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		to.ResultInt64(n)
		return
	}
	to.ResultFloat(float(v))
}

// float returns the value of a number of JSON, 0 if it is none.
func float(v []byte) float64 {
	f, _ := strconv.ParseFloat(string(v), 64)
	return f
}

// appendValue appends a value of an answer as JSON. A blob is the digits of its
// bytes, base 16.
func appendValue(b []byte, stmt *sqlite3.Stmt, column int) []byte {
	switch stmt.ColumnType(column) {
	case sqlite3.INTEGER:
		return strconv.AppendInt(b, stmt.ColumnInt64(column), 10)
	case sqlite3.FLOAT:
		return appendFloat(b, stmt.ColumnFloat(column))
	case sqlite3.TEXT:
		return appendText(b, stmt.ColumnText(column))
	case sqlite3.BLOB:
		b = append(b, '"')
		b = hex.AppendEncode(b, stmt.ColumnRawBlob(column))
		return append(b, '"')
	}
	return append(b, "null"...)
}

// appendFloat appends a number that is read as one with a point again.
func appendFloat(b []byte, f float64) []byte {
	switch {
	case math.IsInf(f, 1):
		return append(b, "9e999"...) // as SQLite has it
	case math.IsInf(f, -1):
		return append(b, "-9e999"...)
	case f == math.Trunc(f) && math.Abs(f) < 1e15:
		return strconv.AppendFloat(b, f, 'f', 1, 64)
	}
	return strconv.AppendFloat(b, f, 'g', -1, 64)
}

// appendText appends a text, on one line as a terminal shows it.
func appendText(b []byte, s string) []byte {
	n := len(b)
	b = rawjson.AppendString(b, s)
	return append(b[:n], fs.EscapeLine(b[n:])...)
}
