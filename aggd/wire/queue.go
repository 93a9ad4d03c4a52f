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
	wake chan struct{}
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
	q := &Queue{out: out, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if c, ok := out.(syscall.Conn); ok {
		q.raw, _ = c.SyscallConn() // nil where there is none
	}
	go q.run()
	return q
}

// Put appends the line made of parts.
func (q *Queue) Put(parts ...[]byte) error {
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
	for _, p := range parts {
		q.waiting = append(q.waiting, p...)
	}
	q.waiting = append(q.waiting, '\n')
	if q.writing {
		return nil
	}
	if q.raw != nil {
		q.try()
	}
	if len(q.waiting) > 0 {
		q.wakeRun()
	}
	return nil
}

// try writes what the pipe takes at once; mu is released meanwhile.
func (q *Queue) try() {
	q.writing = true
	for range 4 { // with what others put meanwhile, but not for ever
		batch := q.take()
		q.mu.Unlock()
		n := q.tryWrite(batch)
		q.mu.Lock()
		if n < len(batch) {
			q.waiting = append(append([]byte(nil), batch[n:]...), q.waiting...)
			break
		}
		q.spare = batch[:0]
		if len(q.waiting) == 0 {
			break
		}
	}
	q.writing = false
	if q.closed {
		q.wakeRun()
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

// tryWrite writes without waiting. An error is left for run to meet.
func (q *Queue) tryWrite(batch []byte) (n int) {
	q.raw.Write(func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), batch)
		return true
	})
	return max(n, 0)
}

// Close lets what is waiting go out, then closes the writer; it waits for neither.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wakeRun()
}

// Done is closed when the writer is closed. A writer whose reader has stopped
// reading must be broken first, by ending that reader.
func (q *Queue) Done() <-chan struct{} { return q.done }

// wakeRun has run write what waits, or end.
func (q *Queue) wakeRun() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *Queue) run() {
	defer close(q.done)
	defer q.out.Close()
	for range q.wake {
		if q.drain() {
			return
		}
	}
}

// drain writes all that waits; it returns true when there will be no more.
func (q *Queue) drain() (over bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.writing && q.err == nil && len(q.waiting) > 0 {
		q.writing = true
		batch := q.take()
		q.mu.Unlock()
		_, err := q.out.Write(batch)
		q.mu.Lock()
		q.writing = false
		q.spare = batch[:0]
		if err != nil {
			q.err, q.waiting = err, nil
		}
	}
	return q.err != nil || q.closed && !q.writing
}
