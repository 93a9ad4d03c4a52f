package wire

import (
	"errors"
	"io"
	"sync"
	"syscall"
)

// ErrStuck is returned for a line to someone who has long not read any.
var ErrStuck = errors.New("does not read its input")

// queueMax is the most that waits in a Queue.
const queueMax = 32 << 20

// A Queue writes lines in the order they are put, and never waits for a reader:
// what a pipe does not take at once is left to a goroutine, so that a reader who
// has stopped reading holds up nobody.
type Queue struct {
	out  io.WriteCloser
	raw  syscall.RawConn // of out, if it has one
	done chan struct{}

	mu      sync.Mutex // guards what follows
	waiting []byte
	spare   []byte
	writing bool // somebody has taken lines from waiting and writes them
	closed  bool
	err     error
}

// NewQueue returns a Queue that writes to out and closes it at the end.
func NewQueue(out io.WriteCloser) *Queue {
	q := &Queue{out: out, done: make(chan struct{})}
	if c, ok := out.(syscall.Conn); ok {
		q.raw, _ = c.SyscallConn() // nil where there is none
	}
	return q
}

// Put appends a line.
func (q *Queue) Put(line []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.err != nil:
		return q.err
	case q.closed:
		return io.ErrClosedPipe
	case len(q.waiting) > queueMax:
		return ErrStuck
	}
	q.waiting = append(append(q.waiting, line...), '\n')
	if q.writing {
		return nil
	}
	q.writing = true
	if q.raw != nil {
		q.try()
	}
	if len(q.waiting) > 0 {
		go q.drain()
	} else {
		q.written()
	}
	return nil
}

// try writes what the pipe takes at once; mu is released meanwhile.
func (q *Queue) try() {
	for range 4 { // with what others put meanwhile, but not for ever
		batch := q.take()
		q.mu.Unlock()
		n := q.tryWrite(batch)
		q.mu.Lock()
		if n < len(batch) {
			q.waiting = append(append([]byte(nil), batch[n:]...), q.waiting...)
			return
		}
		q.spare = batch[:0]
		if len(q.waiting) == 0 {
			return
		}
	}
}

// take returns the lines that wait; mu is held.
func (q *Queue) take() []byte {
	batch := q.waiting
	q.waiting, q.spare = q.spare[:0], nil
	if cap(q.waiting) > 1<<20 {
		q.waiting = nil
	}
	return batch
}

// tryWrite writes without waiting. An error is left for drain to meet.
func (q *Queue) tryWrite(batch []byte) (n int) {
	q.raw.Write(func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), batch)
		return true
	})
	return max(n, 0)
}

// drain writes all that waits.
func (q *Queue) drain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.err == nil && len(q.waiting) > 0 {
		batch := q.take()
		q.mu.Unlock()
		_, err := q.out.Write(batch)
		q.mu.Lock()
		q.spare = batch[:0]
		if err != nil {
			q.err, q.waiting = err, nil
		}
	}
	q.written()
}

// written notes that nobody writes any more, and closes the writer if there will
// be no more to write; mu is held.
func (q *Queue) written() {
	q.writing = false
	if q.closed || q.err != nil {
		q.closed = true
		q.out.Close()
		close(q.done)
	}
}

// Close lets what is waiting go out, then closes the writer; it waits for neither.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.closed = true
	if !q.writing {
		q.written()
	}
}

// Done is closed when the writer is closed. A writer whose reader has stopped
// reading must be broken first, by ending that reader.
func (q *Queue) Done() <-chan struct{} { return q.done }
