package frame

import (
	"errors"
	"io"
	"sync"
)

const (
	held = 128 << 10 // bytes that may wait to be written before WriteFrame waits too
	kept = 64 << 10  // of a buffer for which there is no use just now
)

// A Writer writes the messages of a connection. Any number of goroutines may
// use it: whoever finds nobody writing writes, at once, his own message and
// what others add meanwhile, in one go. Messages of several frames let others
// pass between two frames, but for notifications: these have no stream that
// would tell them apart.
type Writer struct {
	// Account, if set, is what a large message of Post is held on.
	Account *Account

	w io.Writer

	mu      sync.Mutex // guards what follows
	room    sync.Cond  // buf has shrunk, err is set, or nobody writes any more
	buf     []byte     // waits to be written
	spare   []byte     // the other buffer, while nobody writes from it
	writing bool
	lent    int // bytes in buf that Account has lent
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
	return w.add(len(process), func(b []byte) []byte { return AppendPreamble(b, process) })
}

// WriteFrame writes f, in several frames if its version allows that and its
// length needs it. The error is ErrTooLarge, after which the Writer goes on,
// or that of the connection, which stays. A nil error means that f is written
// or that another goroutine is about to.
func (w *Writer) WriteFrame(f Frame) error {
	if err := f.complete(); err != nil {
		return err
	}
	if f.Flags&Notification != 0 {
		return w.add(len(f.Payload), f.append)
	}
	for part := range f.parts {
		if err := w.add(len(part.Payload), part.appendOne); err != nil {
			return err
		}
	}
	return nil
}

// Post writes f without waiting for the connection, in its turn. If so much
// waits already that WriteFrame would wait too, f is dropped and Post
// reports false.
func (w *Writer) Post(f Frame) bool {
	if f.complete() != nil {
		return false
	}
	n := len(f.Payload)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || !w.fits(n) || !w.Account.lendLarge(n) {
		return false
	}
	w.buf = f.append(w.buf)
	if n > held {
		w.lent += n
	}
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

// fits says whether n bytes more may wait to be written. It is called with mu
// held.
func (w *Writer) fits(n int) bool {
	return !w.writing || len(w.buf) == 0 || len(w.buf)+n <= held
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

// parts yields the frames that f takes: one, or as many as its length needs.
func (f *Frame) parts(yield func(Frame) bool) {
	part, rest := *f, f.Payload
	if headerLen+len(f.Process)+len(rest) > MaxFrame {
		part.Flags |= More
		for ; len(rest) > chunk; rest = rest[chunk:] {
			if part.Payload = rest[:chunk]; !yield(part) {
				return
			}
		}
	}
	part.Flags, part.Payload = f.Flags, rest
	yield(part)
}

// append appends f to b, in as many frames as it takes.
func (f *Frame) append(b []byte) []byte {
	for part := range f.parts {
		b = part.appendOne(b)
	}
	return b
}

func (f *Frame) appendOne(b []byte) []byte {
	b = appendHeader(b, f.Version, f.Stream, f.Flags, len(f.Process), len(f.Payload))
	b = append(b, f.Process...)
	return append(b, f.Payload...)
}

// add appends n bytes, and a little more, to the buffer and writes it out unless
// somebody does already.
func (w *Writer) add(n int, appendTo func([]byte) []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.fits(n) && w.err == nil {
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
		out, lent := w.buf, w.lent
		w.buf, w.lent = w.spare[:0], 0
		w.room.Broadcast()
		w.mu.Unlock()
		_, err := w.w.Write(out)
		w.Account.Read(lent)
		w.mu.Lock()
		if cap(out) > kept {
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
		w.Account.Read(w.lent)
		w.lent = 0
	}
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
