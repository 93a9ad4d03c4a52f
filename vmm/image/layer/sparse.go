package layer

import (
	"bytes"
	"io"
	"os"
	"sync"
)

// block is what a hole is looked for by.
const block = 4096

var zeros [block]byte

var buffers = sync.Pool{New: func() any { return make([]byte, 64*block) }}

// copySparse writes what r reads to the new file f, with holes in it where r
// has blocks of zeros.
func copySparse(f *os.File, r io.Reader) (int64, error) {
	buf := buffers.Get().([]byte)
	defer buffers.Put(buf)
	var at int64
	hole := false
	for {
		n, err := io.ReadFull(r, buf)
		werr := writeBlocks(f, buf[:n], at, &hole)
		at += int64(n)
		switch {
		case werr != nil:
			return at, werr
		case err == io.EOF || err == io.ErrUnexpectedEOF && n < len(buf) && short(r):
			if hole {
				return at, f.Truncate(at)
			}
			return at, nil
		case err != nil:
			return at, err
		}
	}
}

// short says whether r, of which a read came back short, is at its end and
// not broken off.
func short(r io.Reader) bool {
	var one [1]byte
	_, err := r.Read(one[:])
	return err == io.EOF
}

// writeBlocks writes p at off, but for its blocks of zeros; hole says whether
// the last block was one.
func writeBlocks(f *os.File, p []byte, off int64, hole *bool) error {
	for len(p) > 0 {
		n, empty := 0, false
		for n < len(p) {
			b := p[n:min(n+block, len(p))]
			z := bytes.Equal(b, zeros[:len(b)])
			if n > 0 && z != empty {
				break
			}
			empty = z
			n += len(b)
		}
		if !empty {
			if _, err := f.WriteAt(p[:n], off); err != nil {
				return err
			}
		}
		*hole = empty
		p, off = p[n:], off+int64(n)
	}
	return nil
}
