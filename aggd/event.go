package aggd

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
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
	cr     bool          // the last line ended with CR, whose LF may come
}

func newEventReader(in io.Reader, limit int) *eventReader {
	return &eventReader{in: bufio.NewReaderSize(in, 32<<10), limit: limit}
}

// next returns the next event that has data. One over the limit is a
// wire.TooLong, after which reading can go on.
func (r *eventReader) next() (e event, err error) {
	var data *wire.Bounded // nil while there is none
	var long *wire.TooLong
	for size := int64(0); ; {
		line := wire.NewBounded(r.limit + 64)
		if err := r.line(line); err != nil {
			return event{}, err // an event without its end does not count
		}
		if size += line.Size(); size-int64(r.limit) > wire.Endless {
			return event{}, fmt.Errorf("%w: an event of over %d bytes", wire.ErrEndless, size)
		}
		text, err := line.Bytes()
		text = bytes.TrimPrefix(text, []byte(mark))
		switch {
		case errors.As(err, &long):
			long.Limit = r.limit
			continue
		case len(text) > 0:
		case long != nil:
			return event{}, long
		case data != nil:
			e.data, err = data.Bytes()
			return e, err
		default:
			e, size = event{}, 0
			continue
		}
		name, value, _ := bytes.Cut(text, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			e.name = string(value)
		case "data":
			if data == nil {
				data = wire.NewBounded(r.limit)
			} else {
				data.Write([]byte("\n"))
			}
			data.Write(value)
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

// line reads a line, which ends with CR, LF or both. A CR ends it at once: the LF, if
// one follows, may come with the next line only.
func (r *eventReader) line(b *wire.Bounded) error {
	for {
		if _, err := r.in.Peek(1); err != nil {
			return err
		}
		piece, _ := r.in.Peek(r.in.Buffered())
		end := bytes.IndexAny(piece, "\r\n")
		switch after := r.cr; {
		case after && end == 0 && piece[0] == '\n':
			r.cr = false
			r.in.Discard(1)
		case end >= 0:
			b.Write(piece[:end])
			r.cr = piece[end] == '\r'
			r.in.Discard(end + 1)
			return nil
		case b.Size()-int64(r.limit) > wire.Endless:
			return fmt.Errorf("%w, over %d bytes until now", wire.ErrEndless, b.Size())
		default:
			b.Write(piece)
			r.cr = false
			r.in.Discard(len(piece))
		}
	}
}

// readEvents hands on what a stream brings until it ends. from is the call that it
// answers, if any.
func (c *conn) readEvents(r *eventReader, from *call) error {
	for {
		e, err := r.next()
		var long *wire.TooLong
		switch {
		case errors.As(err, &long):
			c.tooLong(long, from)
		case err != nil:
			return plain(err)
		case len(e.data) > 0 && (e.name == "" || e.name == "message"):
			c.receive(bytes.TrimSpace(rawjson.OneLine(e.data)), from)
		}
	}
}
