package agent

import (
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

// A Spool holds the bytes of a stream from an offset that moves up to its
// end. One writer appends, by space and commit or by Write; any number of readers
// read by offset. It holds at most limit bytes: when it is full, bytes that every
// reader has gone past make room, and if there are none, or no reader, the
// writer waits. Nothing is dropped before the room is needed.
type Spool struct {
	lossy bool // when it is full the oldest bytes go, read or not

	mu      sync.Mutex // guards what follows
	limit   int64
	chunks  [][]byte // what is kept, without gaps
	first   int64    // offset of chunks[0][0]
	base    int64    // offset of the first byte kept
	end     int64
	ended   bool // nothing more comes
	gone    bool // nobody wants more
	readers map[*spoolReader]bool
	moved   chan struct{} // closed when anything changes; nil if nobody waits
	spare   []byte        // a chunk to use again
}

// NewSpool returns an empty Spool of up to limit bytes.
func NewSpool(limit int64) *Spool {
	return &Spool{limit: limit, readers: make(map[*spoolReader]bool)}
}

// newRing returns a Spool that begins at an offset and keeps the last limit
// bytes, whoever reads.
func newRing(limit, from int64) *Spool {
	s := NewSpool(limit)
	s.lossy = true
	s.first, s.base, s.end = from, from, from
	return s
}

// wake tells those who wait. It is called with mu held.
func (s *Spool) wake() {
	if s.moved != nil {
		close(s.moved)
		s.moved = nil
	}
}

// wait returns what is closed at the next change. It is called with mu held.
func (s *Spool) wait() <-chan struct{} {
	if s.moved == nil {
		s.moved = make(chan struct{})
	}
	return s.moved
}

// space waits for room and returns where to put the next bytes, or nil if
// they are not wanted any more.
func (s *Spool) space() []byte {
	for {
		s.mu.Lock()
		if s.gone {
			s.mu.Unlock()
			return nil
		}
		if b := s.room(); b != nil {
			s.mu.Unlock()
			return b
		}
		moved := s.wait()
		s.mu.Unlock()
		<-moved
	}
}

// room returns the free end of the last chunk, or nil if the spool is full.
func (s *Spool) room() []byte {
	n := len(s.chunks)
	if n == 0 || cap(s.chunks[n-1])-len(s.chunks[n-1]) < minSpace {
		s.chunks = append(s.chunks, s.chunk())
		n++
	}
	last := s.chunks[n-1]
	free := last[len(last):cap(last)]
	free = free[:min(int64(len(free)), max(s.limit/4, minSpace))] // most stays kept
	if over := s.end - s.base + int64(len(free)) - s.limit; over > 0 {
		s.drop(over)
	}
	if left := s.limit - (s.end - s.base); left < int64(len(free)) {
		free = free[:max(left, 0)]
	}
	if len(free) == 0 {
		return nil
	}
	return free
}

// chunk returns an empty chunk that suits the bytes there are.
func (s *Spool) chunk() []byte {
	if b := s.spare; b != nil {
		s.spare = nil
		return b[:0]
	}
	return make([]byte, 0, min(max(s.end-s.base, minChunk), maxChunk))
}

// drop gives up to n bytes away, from the first, as far as all have read.
func (s *Spool) drop(n int64) {
	s.base = max(s.base, min(s.base+n, s.low()))
	for len(s.chunks) > 1 && s.first+int64(len(s.chunks[0])) <= s.base {
		s.first += int64(len(s.chunks[0]))
		if cap(s.chunks[0]) == maxChunk {
			s.spare = s.chunks[0]
		}
		s.chunks[0] = nil
		s.chunks = s.chunks[1:]
	}
}

// low returns the offset up to which bytes may go.
func (s *Spool) low() int64 {
	if s.lossy {
		return s.end
	}
	if len(s.readers) == 0 {
		return s.base
	}
	low := s.end
	for r := range s.readers {
		low = min(low, r.pos)
	}
	return low - min(slack, s.limit/4)
}

// Write appends p, in pieces where there is not room for all. It is
// ErrPipe after Abandon.
func (s *Spool) Write(p []byte) (int, error) {
	for done := 0; ; {
		if done == len(p) {
			return done, nil
		}
		b := s.space()
		if b == nil {
			return done, fs.ErrPipe
		}
		n := copy(b, p[done:])
		s.commit(n)
		done += n
	}
}

// commit adds the n bytes that were put where space said.
func (s *Spool) commit(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := &s.chunks[len(s.chunks)-1]
	*last = (*last)[:len(*last)+n]
	s.end += int64(n)
	s.wake()
}

// Finish marks the end of the stream.
func (s *Spool) Finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.wake()
}

// Abandon makes the writer stop.
func (s *Spool) Abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	s.wake()
}

func (s *Spool) setLimit(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = n
	s.wake()
}

// Extent says how many bytes there were, and where those begin that are kept.
func (s *Spool) Extent() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.base == 0 {
		return fmt.Sprint(s.end)
	}
	return fmt.Sprintf("%d from %d", s.end, s.base)
}

// Size returns how many bytes there were.
func (s *Spool) Size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end
}

// Open returns a handle for reading, which begins with the first byte kept, at
// its offset 0. It blocks at the end, or with nonblock gives ErrAgain there.
func (s *Spool) Open(nonblock bool) fs.Handle {
	r := s.open(nonblock)
	return &spoolView{r, r.pos}
}

// OpenEnd returns a handle like Open's, which begins with what comes next.
func (s *Spool) OpenEnd(nonblock bool) fs.Handle {
	r := s.open(nonblock)
	s.mu.Lock()
	defer s.mu.Unlock()
	r.pos = s.end
	return &spoolView{r, r.pos}
}

// open returns a reader, which holds what it has not gone past until it is
// closed.
func (s *Spool) open(nonblock bool) *spoolReader {
	r := &spoolReader{s: s, nonblock: nonblock}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.pos = s.base
	s.readers[r] = true
	s.wake()
	return r
}
