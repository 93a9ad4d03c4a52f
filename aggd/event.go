package aggd

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// An event is one event of an event stream.
type event struct {
	name string
	data []byte
}

// An eventReader reads an event stream, as HTML's server-sent events define it.
type eventReader struct {
	in     *bufio.Reader
	limit  int
	lastID string        // of the last event that had one
	retry  time.Duration // the server's wish, or 0
}

func newEventReader(in io.Reader, limit int) *eventReader {
	return &eventReader{in: bufio.NewReaderSize(in, 32<<10), limit: limit}
}

// next returns the next event that has data. One over the limit is a
// wire.TooLong, after which reading can go on.
func (r *eventReader) next() (event, error) {
	var e event
	var over *overflow
	some := false
	for {
		line, long, err := r.line()
		if err != nil {
			return event{}, err // an event without its end does not count
		}
		if long != nil {
			over = long
			continue
		}
		if len(line) == 0 {
			if over != nil {
				return event{}, &wire.TooLong{ID: over.ID(), Size: over.size, Limit: r.limit}
			}
			if some {
				return e, nil
			}
			e = event{}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			e.name = string(value)
		case "data":
			if some {
				e.data = append(e.data, '\n')
			}
			some = true
			e.data, over = keep(e.data, value, over, r.limit)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				r.lastID = string(value)
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				r.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// An overflow skims data that is too long to keep.
type overflow struct {
	rawjson.Skim
	size int64
}

func (o *overflow) Write(p []byte) (int, error) {
	o.size += int64(len(p))
	return o.Skim.Write(p)
}

// keep appends value to data, or from the limit on lets it go by.
func keep(data, value []byte, over *overflow, limit int) ([]byte, *overflow) {
	if over == nil && len(data)+len(value) <= limit {
		return append(data, value...), nil
	}
	if over == nil {
		over = &overflow{}
		over.Write(data)
	}
	over.Write(value)
	return nil, over
}

// line returns one line. One over the limit is skimmed instead.
func (r *eventReader) line() ([]byte, *overflow, error) {
	var line []byte
	var over *overflow
	for {
		piece, err := r.in.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, nil, err
		}
		line, over = keep(line, piece, over, r.limit+64)
		if err == nil {
			break
		}
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	return bytes.TrimPrefix(line, []byte("\ufeff")), over, nil
}
