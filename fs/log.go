package fs

import (
	"context"
	"sync"
)

// A Log is text that grows at its end, kept in memory, addressed by byte.
// Any number of readers each get all of it. When it exceeds its limit the
// oldest lines go; a reader that was behind goes on at the oldest kept.
type Log struct {
	limit int

	mu    sync.Mutex // guards what follows
	text  []byte
	base  int64 // offset of text[0]
	grown chan struct{}
}

// NewLog returns a log that keeps the last limit bytes.
func NewLog(limit int) *Log { return &Log{limit: limit, grown: make(chan struct{})} }

// Append adds a line; the newline is added here.
func (l *Log) Append(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(append(l.text, line...), '\n')
	if len(l.text) > 2*l.limit {
		cut := len(l.text) - l.limit
		for l.text[cut-1] != '\n' {
			cut++
		}
		l.text = append([]byte(nil), l.text[cut:]...)
		l.base += int64(cut)
	}
	close(l.grown)
	l.grown = make(chan struct{})
}

// Write appends p, which is one or more whole lines; it makes a Log the
// destination of a logger.
func (l *Log) Write(p []byte) (int, error) {
	if n := len(p); n > 0 && p[n-1] == '\n' {
		l.Append(p[:n-1])
	} else {
		l.Append(p)
	}
	return len(p), nil
}

// Size returns the length of all that was ever appended.
func (l *Log) Size() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(l.base) + uint64(len(l.text))
}

// Open returns a handle on the log. With follow its reads block at the end,
// or give ErrAgain if nonblock is set.
func (l *Log) Open(follow, nonblock bool) Handle {
	return &logHandle{l: l, follow: follow, nonblock: nonblock}
}

// logHandle is an open Log. skip is how much had gone before its reader
// came to it: a client counts offsets from where it began.
type logHandle struct {
	MadeUp
	l                *Log
	follow, nonblock bool

	mu   sync.Mutex // guards skip
	skip int64
}

func (h *logHandle) Stream() bool { return h.follow }

func (h *logHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	for {
		n, grown := h.take(p, off)
		switch {
		case n > 0 || !h.follow || len(p) == 0:
			return n, nil
		case h.nonblock:
			return 0, ErrAgain
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// take copies what there is at off, and returns what is closed when more comes.
func (h *logHandle) take(p []byte, off int64) (int, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.l.mu.Lock()
	defer h.l.mu.Unlock()
	if behind := h.l.base - (off + h.skip); behind > 0 {
		h.skip += behind
	}
	at := off + h.skip - h.l.base
	if at >= int64(len(h.l.text)) {
		return 0, h.l.grown
	}
	return copy(p, h.l.text[at:]), h.l.grown
}
