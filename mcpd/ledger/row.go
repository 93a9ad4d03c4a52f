package ledger

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"

	"hutch/aggd/trace"
	"hutch/fs"
	"hutch/mcpd/redact"
)

// A Row is a record of any table but mcp_calls, by column. A column that is
// left out is null. Text columns take a string, []byte or trace.Context, the others an integer,
// a bool (1 or 0), a float64 or a time.Duration (milliseconds). The key
// "timestamp" takes the time.Time of the event; without it, it is now.
type Row map[string]any

// encode returns the record's line without its head: the committer numbers
// the records of a table in the order in which they are written.
func (t *table) encode(red *redact.Redactor, r Row) ([]byte, error) {
	when := time.Now()
	if v, ok := r["timestamp"]; ok {
		if when, ok = v.(time.Time); !ok {
			return nil, fmt.Errorf("%w: timestamp is a %T", fs.ErrInvalid, v)
		}
	}
	b := make([]byte, 0, 512)
	b = append(b, `,"timestamp":`...)
	b = appendTime(b, when)
	seen := 0
	for _, c := range t.columns {
		v, ok := r[c.name]
		if ok {
			seen++
		}
		var err error
		if b, err = c.append(appendKey(b, c.name), red, v); err != nil {
			return nil, fmt.Errorf("%w: table %s, column %s", err, t.name, c.name)
		}
	}
	if _, ok := r["timestamp"]; ok {
		seen++
	}
	if seen != len(r) {
		return nil, t.unknown(r)
	}
	return append(b, '}', '\n'), nil
}

// appendHead appends what stands before an encoded row: its number.
func appendHead(b []byte, id uint64) []byte {
	b = append(b, `{"id":`...)
	return strconv.AppendUint(b, id, 10)
}

// appendKey appends what stands before the value of a column.
func appendKey(b []byte, name string) []byte {
	return append(append(append(b, `,"`...), name...), `":`...)
}

// append appends the value v to b. It lets v not escape: a call has many values.
func (c *column) append(b []byte, red *redact.Redactor, v any) ([]byte, error) {
	if v == nil {
		return append(b, "null"...), nil
	}
	if c.kind == integer || c.kind == real {
		return appendNumber(b, v)
	}
	limit := wordMax
	if c.kind == text {
		limit = textMax
	}
	switch v := v.(type) {
	case trace.Context:
		return appendText(b, v.ID()), nil
	case string:
		return appendText(b, red.PreviewString(v, limit)), nil
	case []byte:
		return appendText(b, red.Preview(v, limit)), nil
	}
	return nil, fmt.Errorf("%w: a %v is not text", fs.ErrInvalid, reflect.TypeOf(v))
}

func appendNumber(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case int:
		return strconv.AppendInt(b, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case uint64:
		return strconv.AppendUint(b, v, 10), nil
	case bool:
		if v {
			return append(b, '1'), nil
		}
		return append(b, '0'), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return append(b, "null"...), nil
		}
		return strconv.AppendFloat(b, v, 'g', -1, 64), nil
	case time.Duration:
		return appendMillis(b, v), nil
	case json.Number: // of a record that is made anew
		return append(b, v...), nil
	}
	return nil, fmt.Errorf("%w: a %v is not a number", fs.ErrInvalid, reflect.TypeOf(v))
}

// unknown returns the error for a row with a column that the table lacks.
func (t *table) unknown(r Row) error {
	for name := range r {
		if name != "timestamp" && t.index(name) < 0 {
			return fmt.Errorf("%w: table %s has no column %q", fs.ErrInvalid, t.name, name)
		}
	}
	return nil
}
