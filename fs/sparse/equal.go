package sparse

import (
	"bytes"
	"io"
	"os"
	"sync"
)

var buffers = sync.Pool{New: func() any { return new([256 << 10]byte) }}

// Equal says whether two files of that size have the same in them. It reads
// where either has data, and calls on again and again meanwhile, whose error
// ends it.
func Equal(f, g *os.File, size int64, on func() error) (bool, error) {
	p, q := buffers.Get().(*[256 << 10]byte), buffers.Get().(*[256 << 10]byte)
	defer buffers.Put(p)
	defer buffers.Put(q)
	x, y := Of(f, size), Of(g, size)
	for at := int64(0); at < size; {
		if err := on(); err != nil {
			return false, err
		}
		begin, end := nearer(x, y, at)
		at = min(end, begin+int64(len(p)))
		n, err := f.ReadAt(p[:at-begin], begin)
		m, gerr := g.ReadAt(q[:at-begin], begin)
		switch {
		case !bytes.Equal(p[:n], q[:m]):
			return false, nil
		case err != nil && err != io.EOF:
			return false, err
		case gerr != nil && gerr != io.EOF:
			return false, gerr
		case int64(n) < at-begin: // both were truncated meanwhile
			return true, nil
		}
	}
	return true, nil
}

// nearer returns the first data at or after at in either file, as far as the
// other has data there throughout, or none.
func nearer(x, y *Extents, at int64) (begin, end int64) {
	begin, end = x.From(at)
	b, e := y.From(at)
	switch {
	case b < begin:
		return b, min(e, begin)
	case b > begin:
		return begin, min(end, b)
	}
	return begin, min(end, e)
}
