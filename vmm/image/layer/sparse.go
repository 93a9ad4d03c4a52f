package layer

import (
	"bytes"
	"io"
	"os"
	"slices"
	"sync"
)

// hole is how many zeros in a row are left out of a file, at least.
const hole = 16 << 10

var zeros [hole]byte

var buffers = sync.Pool{New: func() any { return make([]byte, 16*hole) }}

// A sparse writes to a new file, with holes in it in the place of zeros.
type sparse struct {
	f  *os.File
	at int64
}

func (s *sparse) Write(p []byte) (int, error) {
	for part := range slices.Chunk(p, hole) {
		if !bytes.Equal(part, zeros[:len(part)]) {
			if _, err := s.f.WriteAt(part, s.at); err != nil {
				return 0, err
			}
		}
		s.at += int64(len(part))
	}
	return len(p), nil
}

// copySparse writes what r reads to the new file f, without its zeros.
func copySparse(f *os.File, r io.Reader) (int64, error) {
	buf := buffers.Get().([]byte)
	defer buffers.Put(buf)
	n, err := io.CopyBuffer(&sparse{f: f}, r, buf)
	if err != nil {
		return n, err
	}
	return n, f.Truncate(n) // it may end in a hole
}
