package asks

import (
	"context"
	"sync"

	"hutch/fs"
)

// Next opens the stream of questions: a line for each that waits, and then for
// each new one. A reader has nothing kept for it but the line that it is at,
// so one that hangs costs nothing; what is answered before it comes to it, it
// does not see.
func (t *Table) Next(nonblock bool) fs.Handle { return &nextHandle{table: t, nonblock: nonblock} }

// nextHandle is an open stream of questions.
type nextHandle struct {
	fs.MadeUp
	table    *Table
	nonblock bool

	mu    sync.Mutex // guards what follows
	after uint64     // the number of the question that line is
	line  string     // that was read last
	base  int64      // offset of line
}

func (h *nextHandle) Stream() bool { return true }

// ReadAt reads the line at off. The last line stays until one after it is
// read: a read that was interrupted takes nothing with it.
func (h *nextHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	for {
		n, grown := h.take(p, off)
		switch {
		case n > 0 || len(p) == 0:
			return n, nil
		case h.nonblock:
			return 0, fs.ErrAgain
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// take copies what there is at off, and returns what is closed when there may
// be more.
func (h *nextHandle) take(p []byte, off int64) (int, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := fs.ReadText(h.line, p, off-h.base); n > 0 {
		return n, nil
	}
	a, grown := h.table.next(h.after)
	if a == nil {
		return 0, grown
	}
	h.base, h.line, h.after = off, string(a.Line()), a.ID
	return fs.ReadText(h.line, p, 0), nil
}
