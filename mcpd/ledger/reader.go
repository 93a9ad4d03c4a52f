package ledger

import (
	"context"
	"errors"
	"sync"
)

// A Reader reads a Log as a text that begins at 0, with the oldest line that
// is kept. One that is so slow that lines are dropped before it comes to them
// goes on with the oldest that is left; a line of which it had only the
// beginning ends there.
type Reader struct {
	l *Log

	mu   sync.Mutex // guards what follows
	skip int64      // what is to be added to a reader's offset
	end  int64      // of what was read last
	open bool       // which was no whole line
}

// Reader returns a reader from the oldest line on.
func (l *Log) Reader() *Reader {
	begin, _ := l.Span()
	return &Reader{l: l, skip: begin}
}

// ReadAt is ReadAt of the Log.
func (r *Reader) ReadAt(ctx context.Context, p []byte, off int64, follow bool) (int, error) {
	for {
		n, err := r.l.ReadAt(ctx, p, r.at(off), follow)
		var gone *dropped
		switch {
		case errors.As(err, &gone):
			if r.jump(off, gone.base) {
				p[0] = '\n'
				return 1, nil
			}
		case n > 0:
			r.read(off+int64(n), p[n-1] != '\n')
			return n, err
		default:
			return n, err
		}
	}
}

func (r *Reader) at(off int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if off < 0 {
		return off
	}
	return off + r.skip
}

func (r *Reader) read(end int64, open bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end, r.open = end, open
}

// jump has the reader go on at base, after a line end if it needs one.
func (r *Reader) jump(off, base int64) (needs bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if needs = r.open && off == r.end; needs {
		r.open = false
		off++
	}
	r.skip = max(r.skip, base-off)
	return needs
}
