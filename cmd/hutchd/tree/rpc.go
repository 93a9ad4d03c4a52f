package tree

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"hutch/fs"
)

// rpcHandle is an open file on which a line is written and its answer read:
// a tool, a resource, a prompt. The answer begins wherever the reader stands
// when it reads first, so that a shell, whose one file offset the write has
// moved, reads it whole. Several lines that are written before that have their
// answers one after the other. A read completes a line that has no newline.
type rpcHandle struct {
	fs.MadeUp
	ask    func(ctx context.Context, line string) (string, error)
	line   *fs.Writer
	open   context.Context // done when the file is closed
	closes context.CancelFunc

	mu     sync.Mutex // guards what follows
	answer string
	base   int64 // offset of the answer's first byte; -1 until it is read
}

// openRPC refuses to open for reading or writing alone, so that programs
// which read every file of a tree call nothing.
func openRPC(flags int, ask func(ctx context.Context, line string) (string, error)) (fs.Handle, error) {
	if flags&os.O_RDWR == 0 {
		return nil, fmt.Errorf("%w: open it for reading and writing: write the question, read the answer", fs.ErrPermission)
	}
	h := &rpcHandle{ask: ask, base: -1}
	h.open, h.closes = context.WithCancel(context.Background())
	h.line = fs.NewLongWriter(h.do, maxQuestion)
	return h, nil
}

// maxQuestion is the length of the longest line that can be asked.
const maxQuestion = 1 << 20

// maxAnswers is how many bytes of answers may wait to be read when another is asked for.
const maxAnswers = 64 << 20

func (h *rpcHandle) do(ctx context.Context, line string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.open, cancel)()
	if err := h.room(); err != nil {
		return err
	}
	answer, err := h.ask(ctx, strings.TrimSpace(line))
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer, h.base = h.answer+answer, -1
	return nil
}

// room forgets answers that were read, and refuses to ask where those that were
// not have become too many.
func (h *rpcHandle) room() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.base >= 0 {
		h.answer = ""
	}
	if len(h.answer) > maxAnswers {
		return fmt.Errorf("%w: answers that were not read have %d bytes: read them first", fs.ErrTooLong, len(h.answer))
	}
	return nil
}

func (h *rpcHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if err := h.line.Complete(ctx); err != nil {
		return 0, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.base < 0 || off < h.base {
		h.base = off
	}
	return fs.ReadText(h.answer, p, off-h.base), nil
}

func (h *rpcHandle) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	return h.line.Write(ctx, p)
}

func (h *rpcHandle) Close() error {
	h.closes()
	return nil
}
