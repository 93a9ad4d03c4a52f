package agent

import (
	"context"
	"fmt"

	"hutch/fs"
)

// A spoolReader is an open spool. Asking for an offset says that all
// before it has arrived; what was merely answered may have been lost with
// the connection.
type spoolReader struct {
	fs.MadeUp
	s        *Spool
	nonblock bool
	pos      int64 // guarded by s.mu
}

func (r *spoolReader) Stream() bool { return true }

func (r *spoolReader) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
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
func (r *spoolReader) take(p []byte, off int64) (int, <-chan struct{}, error) {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case off < s.base:
		return 0, nil, fmt.Errorf("%w: offset %d: the output before %d is gone", fs.ErrInvalid, off, s.base)
	case len(p) == 0:
		return 0, nil, nil
	}
	if pos := min(off, s.end); pos != r.pos {
		r.pos = pos
		s.wake()
	}
	if off >= s.end {
		if s.ended {
			return 0, nil, nil
		}
		return 0, s.wait(), nil
	}
	return s.copy(p, off), nil, nil
}

func (s *Spool) copy(p []byte, off int64) int {
	at, n := s.first, 0
	for _, c := range s.chunks {
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

func (r *spoolReader) Close() error {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	delete(r.s.readers, r)
	r.s.wake()
	return nil
}

// A spoolView is an open spool whose offsets count from where it began.
type spoolView struct {
	*spoolReader
	began int64
}

func (v *spoolView) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	return v.spoolReader.ReadAt(ctx, p, v.began+off)
}
