package wire

import (
	"bufio"
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

// A Reader reads lines up to a limit.
type Reader struct {
	in    *bufio.Reader
	limit int
}

// NewReader returns a Reader of in.
func NewReader(in io.Reader, limit int) *Reader {
	return &Reader{bufio.NewReaderSize(in, 64<<10), limit}
}

// Read returns the next line that is not empty, without its end. The caller may
// keep it. A last line without an end is returned before io.EOF.
func (r *Reader) Read() ([]byte, error) {
	for {
		line, err := r.line()
		if err != nil || len(line) > 0 {
			return line, err
		}
	}
}

func (r *Reader) line() ([]byte, error) {
	var line []byte
	for {
		piece, err := r.in.ReadSlice('\n')
		if len(line)+len(piece) > r.limit+2 {
			return nil, r.drain(line, piece, err)
		}
		if line == nil && !errors.Is(err, bufio.ErrBufferFull) {
			line = make([]byte, 0, len(piece))
		}
		line = append(line, piece...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err == nil, err == io.EOF && len(trim(line)) > 0:
			if line = trim(line); len(line) > r.limit {
				return nil, r.drain(line, nil, nil)
			}
			return line, nil
		default:
			return nil, err
		}
	}
}

// drain reads to the end of a line that is too long and looks for its id.
func (r *Reader) drain(line, piece []byte, err error) error {
	skim := &rawjson.Skim{}
	skim.Write(line)
	size := int64(len(line))
	for {
		skim.Write(piece)
		size += int64(len(piece))
		if !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
		piece, err = r.in.ReadSlice('\n')
	}
	if err != nil && err != io.EOF {
		return err
	}
	return &TooLong{ID: skim.ID(), Size: size, Limit: r.limit}
}

func trim(line []byte) []byte {
	for len(line) > 0 {
		switch line[len(line)-1] {
		case '\n', '\r', ' ', '\t':
			line = line[:len(line)-1]
			continue
		}
		break
	}
	return line
}

// A Writer writes whole lines from any number of goroutines. Lines that arrive
// while one is being written go out together.
type Writer struct {
	out io.Writer

	// mu guards the fields below.
	mu      sync.Mutex
	done    *sync.Cond // signalled when a batch has been written
	waiting []byte
	spare   []byte
	writing bool
	batch   uint64 // the number of the batch that waiting belongs to
	written uint64 // the number of batches written
	err     error
}

// NewWriter returns a Writer to out.
func NewWriter(out io.Writer) *Writer {
	w := &Writer{out: out}
	w.done = sync.NewCond(&w.mu)
	return w
}

// Write writes the line made of parts and returns when it is out.
func (w *Writer) Write(parts ...[]byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	for _, p := range parts {
		w.waiting = append(w.waiting, p...)
	}
	w.waiting = append(w.waiting, '\n')
	mine := w.batch
	for w.writing && w.written <= mine && w.err == nil {
		w.done.Wait()
	}
	if w.written > mine || w.err != nil {
		return w.err
	}
	w.flush()
	return w.err
}

// flush writes what is waiting; mu is released meanwhile.
func (w *Writer) flush() {
	out := w.waiting
	w.waiting, w.spare = w.spare[:0], nil
	w.batch++
	w.writing = true
	w.mu.Unlock()
	_, err := w.out.Write(out)
	w.mu.Lock()
	w.writing = false
	w.written++
	if w.err == nil {
		w.err = err
	}
	if cap(out) <= 1<<20 {
		w.spare = out[:0]
	}
	w.done.Broadcast()
}
