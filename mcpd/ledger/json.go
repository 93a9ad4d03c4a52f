package ledger

import (
	"strconv"
	"time"

	"hutch/aggd/rawjson"
	"hutch/fs"
)

func appendTime(b []byte, t time.Time) []byte {
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, fs.TimeFormat)
	return append(b, '"')
}

// appendMillis appends d in milliseconds, to the microsecond.
func appendMillis(b []byte, d time.Duration) []byte {
	us := max(d.Microseconds(), 0)
	b = strconv.AppendInt(b, us/1000, 10)
	frac := us % 1000
	return append(b, '.', byte('0'+frac/100), byte('0'+frac/10%10), byte('0'+frac%10))
}

// appendText appends s as a JSON string, the empty one as null. What a terminal
// does not show as it is is escaped: a record is one line to everyone, and says
// what it seems to.
func appendText(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	n := len(b)
	b = rawjson.AppendString(b, s)
	return append(b[:n], fs.EscapeLine(b[n:])...)
}
