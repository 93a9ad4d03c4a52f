package ninep

import (
	"math/bits"
	"sync"
)

// A buffer holds a message. Buffers come from pools, one for each power of
// two from 512 bytes on, so that a blocked read holds no more than it asked
// for.
type buffer struct {
	b    []byte
	pool *sync.Pool
}

const (
	minShift = 9
	maxShift = 25 // over maxMsize
)

var buffers [maxShift - minShift + 1]sync.Pool

func bufferShift(n int) int { return max(minShift, bits.Len(uint(max(n, 1)-1))) }

// bufferSize returns how many bytes a buffer for n takes.
func bufferSize(n int) int { return 1 << bufferShift(n) }

// newBuffer returns a buffer whose b has length n, with anything in it.
func newBuffer(n int) *buffer {
	shift := bufferShift(n)
	pool := &buffers[shift-minShift]
	buf, ok := pool.Get().(*buffer)
	if !ok {
		buf = &buffer{b: make([]byte, 1<<shift), pool: pool}
	}
	buf.b = buf.b[:n]
	return buf
}

// free gives the buffer back; nothing may use its bytes any more.
func (b *buffer) free() {
	if b != nil {
		b.b = b.b[:cap(b.b)]
		b.pool.Put(b)
	}
}
