package frame

import (
	"errors"
	"io"
	"sync"
)

// held is how many bytes may wait to be written before WriteFrame waits too.
const held = 1 << 20

// A Writer writes the messages of a connection. Any number of goroutines may
// use it: whoever finds nobody writing writes, at once, his own message and
// what others add meanwhile, in one go. Messages of several frames let others
// pass between two frames, but for notifications: these have no stream that
// would tell them apart.
type Writer struct {
	w io.Writer

	// mu guards what follows.
	mu      sync.Mutex
	room    sync.Cond // buf has shrunk, err is set, or nobody writes any more
	buf     []byte    // waits to be written
	spare   []byte    // the other buffer, while nobody writes from it
	writing bool
	err     error
}

// NewWriter returns a Writer to the connection w.
func NewWriter(w io.Writer) *Writer {
	wr := &Writer{w: w}
	wr.room.L = &wr.mu
	return wr
}

// Preamble writes the preamble that names the process.
func (w *Writer) Preamble(process string) error {
	return w.add(func(b []byte) []byte { return AppendPreamble(b, process) })
}

// WriteFrame writes f, in several frames if its version allows that and its
// length needs it. The error is ErrTooLarge, after which the Writer goes on,
// or that of the connection, which stays. A nil error means that f is written
// or that another goroutine is about to.
func (w *Writer) WriteFrame(f Frame) error {
	if err := f.complete(); err != nil {
		return err
	}
	if f.fitsOne() || f.Flags&Notification != 0 {
		return w.add(f.append)
	}
	rest := f.Payload
	for len(rest) > chunk {
		part := f
		part.Flags |= More
		part.Payload = rest[:chunk]
		if err := w.add(part.appendOne); err != nil {
			return err
		}
		rest = rest[chunk:]
	}
	f.Payload = rest
	return w.add(f.appendOne)
}

// Post writes f without waiting for the connection, in its turn. If so much
// waits already that WriteFrame would wait too, f is dropped and Post
// reports false.
func (w *Writer) Post(f Frame) bool {
	if f.complete() != nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || w.writing && len(w.buf) > held {
		return false
	}
	w.buf = f.append(w.buf)
	if !w.writing {
		w.writing = true
		go func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.flush()
		}()
	}
	return true
}

// complete fills in what a frame needs and checks its length.
func (f *Frame) complete() error {
	if len(f.Process) > MaxName {
		f.Process = SanitizeName(f.Process)
	}
	if f.Version == 0 {
		f.Version = Version1
	}
	if !Fits(f.Version, f.Process, len(f.Payload)) {
		return ErrTooLarge
	}
	return nil
}

func (f *Frame) fitsOne() bool {
	return headerLen+len(f.Process)+len(f.Payload) <= MaxFrame
}

// append appends f to b, in as many frames as it takes.
func (f *Frame) append(b []byte) []byte {
	if f.fitsOne() {
		return f.appendOne(b)
	}
	rest := f.Payload
	for len(rest) > chunk {
		part := *f
		part.Flags |= More
		part.Payload = rest[:chunk]
		b = part.appendOne(b)
		rest = rest[chunk:]
	}
	part := *f
	part.Payload = rest
	return part.appendOne(b)
}

func (f *Frame) appendOne(b []byte) []byte {
	b = appendHeader(b, f.Version, f.Stream, f.Flags, len(f.Process), len(f.Payload))
	b = append(b, f.Process...)
	return append(b, f.Payload...)
}

// add appends to the buffer and writes it out unless somebody does already.
func (w *Writer) add(appendTo func([]byte) []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.writing && len(w.buf) > held && w.err == nil {
		w.room.Wait()
	}
	if w.err != nil {
		return w.err
	}
	w.buf = appendTo(w.buf)
	if w.writing {
		return nil
	}
	w.flush()
	return w.err
}

// flush writes until nothing waits. It is called with mu held and lets go of
// it while it writes.
func (w *Writer) flush() {
	w.writing = true
	for len(w.buf) > 0 && w.err == nil {
		out := w.buf
		w.buf = w.spare[:0]
		w.mu.Unlock()
		_, err := w.w.Write(out)
		w.mu.Lock()
		if cap(out) > 2*held {
			out = nil
		}
		w.spare = out
		w.fail(err)
		w.room.Broadcast()
	}
	w.writing = false
	w.room.Broadcast()
}

func (w *Writer) fail(err error) {
	if err != nil && w.err == nil {
		w.err = err
		w.buf = nil
	}
}

// Err returns the error after which nothing can be written, if there is one.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// ErrClosed is what WriteFrame returns after Close.
var ErrClosed = errors.New("connection closed")

// Flush waits until everything is written, or nothing can be any more.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.writing {
		w.room.Wait()
	}
	return w.err
}

// Close makes every WriteFrame and Post, now and later, fail, and waits for a
// write under way: close the connection before.
func (w *Writer) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail(ErrClosed)
	w.room.Broadcast()
	for w.writing {
		w.room.Wait()
	}
}
