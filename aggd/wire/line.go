package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"hutch/aggd/rawjson"
)

// TooLong is returned for a line over its limit. The line is gone; the next one
// can be read.
type TooLong struct {
	ID    json.RawMessage // the id of the message in it, if it had one
	Size  int64
	Limit int
}

func (e *TooLong) Error() string {
	return fmt.Sprintf("message of %d bytes is over the limit of %d", e.Size, e.Limit)
}

// Endless is by how many bytes a line has to be over its limit to be taken for
// one that has no end.
const Endless = 64 << 20

// ErrEndless is returned for a line without an end. No more can be read.
var ErrEndless = errors.New("a line without an end")

// A Bounded keeps what is written to it up to a limit; of more it keeps only
// the size, and the id of the message in it.
type Bounded struct {
	limit int
	size  int64
	text  []byte
	skim  rawjson.Skim // of what is more, with all before
}

// NewBounded returns a Bounded that keeps limit bytes.
func NewBounded(limit int) *Bounded { return &Bounded{limit: limit} }

// Write never fails.
func (b *Bounded) Write(p []byte) (int, error) {
	b.size += int64(len(p))
	if b.size <= int64(b.limit) {
		b.text = append(b.text, p...)
		return len(p), nil
	}
	b.skim.Write(b.text)
	b.text = nil
	return b.skim.Write(p)
}

// Size returns how many bytes were written.
func (b *Bounded) Size() int64 { return b.size }

// Bytes returns what was written, or TooLong.
func (b *Bounded) Bytes() ([]byte, error) {
	if b.size > int64(b.limit) {
		return nil, &TooLong{b.skim.ID(), b.size, b.limit}
	}
	return b.text, nil
}

// A Reader reads lines up to a limit.
type Reader struct {
	in    *bufio.Reader
	limit func() int
}

// NewReader returns a Reader of in.
func NewReader(in io.Reader, limit int) *Reader {
	return NewLimitedReader(in, func() int { return limit })
}

// NewLimitedReader returns a Reader of in whose limit may change; each line has
// the one of when it begins to come.
func NewLimitedReader(in io.Reader, limit func() int) *Reader {
	return &Reader{bufio.NewReaderSize(in, 64<<10), limit}
}

// Read returns the next line that is not empty, without its end. The caller may
// keep it. A last line without an end is returned before io.EOF; one that has
// none and goes on is ErrEndless.
func (r *Reader) Read() ([]byte, error) {
	for {
		r.in.Peek(1) // whose error ReadLine meets too
		b := NewBounded(r.limit())
		err := ReadLine(r.in, b)
		if err != nil && (err != io.EOF || b.size == 0) { // a line that is cut off is none
			return nil, err
		}
		line, err := b.Bytes()
		if line = bytes.TrimRight(line, " \t\r"); err != nil || len(line) > 0 {
			return line, err
		}
	}
}

// ReadLine reads a line to b, without its end.
func ReadLine(in *bufio.Reader, b *Bounded) error {
	for {
		piece, err := in.ReadSlice('\n')
		b.Write(bytes.TrimSuffix(piece, []byte("\n")))
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if b.size-int64(b.limit) > Endless {
			return fmt.Errorf("%w, over %d bytes until now", ErrEndless, b.size)
		}
	}
}

// A Writer writes whole lines from any number of goroutines.
type Writer struct {
	mu  sync.Mutex // guards what follows
	out io.Writer
	err error
}

// NewWriter returns a Writer to out.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Write writes a line, to which it appends the end, and returns when it is out.
// After an error it does nothing.
func (w *Writer) Write(line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		_, w.err = w.out.Write(append(line, '\n'))
	}
	return w.err
}
