package agent

import (
	"context"
	"fmt"
	"sync"

	"hutch/fs"
)

const (
	minChunk = 1 << 10
	maxChunk = 64 << 10
	minSpace = 512 // less than this at a chunk's end is not worth a read

	// slack is how far behind the slowest reader bytes are kept all the same,
	// for a client that lost its connection, and what it carried, to ask again.
	slack = 512 << 10
)

// A window holds the bytes of a stream from an offset that moves up to its
// end. One writer appends, by space and commit; any number of readers read
// by offset. It holds at most limit bytes: when it is full, bytes that every
// reader has gone past make room, and if there are none, or no reader, the
// writer waits. Nothing is dropped before the room is needed.
type window struct {
	lossy bool // when it is full the oldest bytes go, read or not

	mu      sync.Mutex // guards what follows
	limit   int64
	chunks  [][]byte // what is kept, without gaps
	first   int64    // offset of chunks[0][0]
	base    int64    // offset of the first byte kept
	end     int64
	ended   bool // nothing more comes
	gone    bool // nobody wants more
	readers map[*windowReader]bool
	moved   chan struct{} // closed when anything changes; nil if nobody waits
	spare   []byte        // a chunk to use again
}

func newWindow(limit int64) *window {
	return &window{limit: limit, readers: make(map[*windowReader]bool)}
}

// newRing returns a window that begins at an offset and keeps the last limit
// bytes, whoever reads.
func newRing(limit, from int64) *window {
	w := newWindow(limit)
	w.lossy = true
	w.first, w.base, w.end = from, from, from
	return w
}

// wake tells those who wait. It is called with mu held.
func (w *window) wake() {
	if w.moved != nil {
		close(w.moved)
		w.moved = nil
	}
}

// wait returns what is closed at the next change. It is called with mu held.
func (w *window) wait() <-chan struct{} {
	if w.moved == nil {
		w.moved = make(chan struct{})
	}
	return w.moved
}

// space waits for room and returns where to put the next bytes, or nil if
// they are not wanted any more.
func (w *window) space() []byte {
	for {
		w.mu.Lock()
		if w.gone {
			w.mu.Unlock()
			return nil
		}
		if b := w.room(); b != nil {
			w.mu.Unlock()
			return b
		}
		moved := w.wait()
		w.mu.Unlock()
		<-moved
	}
}

// room returns the free end of the last chunk, or nil if the window is full.
func (w *window) room() []byte {
	n := len(w.chunks)
	if n == 0 || cap(w.chunks[n-1])-len(w.chunks[n-1]) < minSpace {
		w.chunks = append(w.chunks, w.chunk())
		n++
	}
	last := w.chunks[n-1]
	free := last[len(last):cap(last)]
	free = free[:min(int64(len(free)), max(w.limit/4, minSpace))] // most stays kept
	if over := w.end - w.base + int64(len(free)) - w.limit; over > 0 {
		w.drop(over)
	}
	if left := w.limit - (w.end - w.base); left < int64(len(free)) {
		free = free[:max(left, 0)]
	}
	if len(free) == 0 {
		return nil
	}
	return free
}

// chunk returns an empty chunk that suits the bytes there are.
func (w *window) chunk() []byte {
	if b := w.spare; b != nil {
		w.spare = nil
		return b[:0]
	}
	return make([]byte, 0, min(max(w.end-w.base, minChunk), maxChunk))
}

// drop gives up to n bytes away, from the first, as far as all have read.
func (w *window) drop(n int64) {
	w.base = max(w.base, min(w.base+n, w.low()))
	for len(w.chunks) > 1 && w.first+int64(len(w.chunks[0])) <= w.base {
		w.first += int64(len(w.chunks[0]))
		if cap(w.chunks[0]) == maxChunk {
			w.spare = w.chunks[0]
		}
		w.chunks[0] = nil
		w.chunks = w.chunks[1:]
	}
}

// low returns the offset up to which bytes may go.
func (w *window) low() int64 {
	if w.lossy {
		return w.end
	}
	if len(w.readers) == 0 {
		return w.base
	}
	low := w.end
	for r := range w.readers {
		low = min(low, r.pos)
	}
	return low - min(slack, w.limit/4)
}

// commit adds the n bytes that were put where space said.
func (w *window) commit(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := &w.chunks[len(w.chunks)-1]
	*last = (*last)[:len(*last)+n]
	w.end += int64(n)
	w.wake()
}

// finish marks the end of the stream.
func (w *window) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.wake()
}

// abandon makes the writer stop.
func (w *window) abandon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = true
	w.wake()
}

func (w *window) setLimit(n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit = n
	w.wake()
}

// extent says how many bytes there were, and where those begin that are kept.
func (w *window) extent() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.base == 0 {
		return fmt.Sprint(w.end)
	}
	return fmt.Sprintf("%d from %d", w.end, w.base)
}

func (w *window) size() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.end
}

// open returns a reader, which holds what it has not gone past until it is
// closed.
func (w *window) open(nonblock bool) *windowReader {
	r := &windowReader{w: w, nonblock: nonblock}
	w.mu.Lock()
	defer w.mu.Unlock()
	r.pos = w.base
	w.readers[r] = true
	w.wake()
	return r
}

// A windowReader is an open window. Asking for an offset says that all
// before it has arrived; what was merely answered may have been lost with
// the connection.
type windowReader struct {
	fs.MadeUp
	w        *window
	nonblock bool
	pos      int64 // guarded by w.mu
}

func (r *windowReader) Stream() bool { return true }

func (r *windowReader) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	for {
		n, moved, err := r.take(p, off)
		if n > 0 || err != nil || moved == nil {
			return n, err
		}
		if r.nonblock {
			return 0, fs.ErrAgain
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// take copies what there is at off. If nothing is, and more may come, it
// returns what to wait for.
func (r *windowReader) take(p []byte, off int64) (int, <-chan struct{}, error) {
	w := r.w
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case off < w.base:
		return 0, nil, fmt.Errorf("%w: offset %d: the output before %d is gone", fs.ErrInvalid, off, w.base)
	case len(p) == 0:
		return 0, nil, nil
	}
	if pos := min(off, w.end); pos != r.pos {
		r.pos = pos
		w.wake()
	}
	if off >= w.end {
		if w.ended {
			return 0, nil, nil
		}
		return 0, w.wait(), nil
	}
	return w.copy(p, off), nil, nil
}

func (w *window) copy(p []byte, off int64) int {
	at, n := w.first, 0
	for _, c := range w.chunks {
		if skip := off + int64(n) - at; skip < int64(len(c)) {
			n += copy(p[n:], c[skip:])
		}
		at += int64(len(c))
		if n == len(p) {
			break
		}
	}
	return n
}

func (r *windowReader) Close() error {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	delete(r.w.readers, r)
	r.w.wake()
	return nil
}
