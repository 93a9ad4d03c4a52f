package tree

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"

	"hutch/fs"
	"hutch/mcpd/timeline"
)

// narrowed is an open file whose text messages narrow that are written on it. The
// text is made when it is first read after them, and begins wherever the reader
// stands then, so that a shell, whose one file offset the write has moved, reads
// it whole.
type narrowed struct {
	fs.MadeUp
	words  *fs.Writer
	kept   *atomic.Int64 // bytes that all such files keep
	text   func(context.Context, timeline.Query) (string, error)
	open   context.Context // done when the file is closed
	closes context.CancelFunc

	turn  turn // guards what follows, and is held while the text is made
	query timeline.Query
	made  string
	base  int64 // offset of the text's first byte; -1: it is to be made
}

// maxNarrowed is how many bytes of texts open files keep, all together.
const maxNarrowed = 64 << 20

func (s *Server) openNarrowed(flags int, words []fs.Verb[*timeline.Query], text func(context.Context, timeline.Query) (string, error)) (fs.Handle, error) {
	if flags&(os.O_WRONLY|os.O_RDWR) == os.O_WRONLY {
		return nil, fmt.Errorf("%w: open it for reading and writing: write what is wanted, read it on the same open file", fs.ErrPermission)
	}
	h := &narrowed{text: text, kept: &s.narrowed, turn: newTurn(), base: -1}
	h.open, h.closes = context.WithCancel(context.Background())
	h.words = fs.NewWriter(words, func(ctx context.Context, m string) error {
		if err := h.turn.take(ctx); err != nil {
			return err
		}
		defer h.turn.give()
		if err := h.query.Narrow(words, m); err != nil {
			return err
		}
		h.forget()
		return nil
	})
	return h, nil
}

func (h *narrowed) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if err := h.words.Complete(ctx); err != nil {
		return 0, err
	}
	if err := h.turn.take(ctx); err != nil {
		return 0, err
	}
	defer h.turn.give()
	if h.base < 0 {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(h.open, cancel)()
		text, err := h.text(ctx, h.query)
		if err == nil {
			err = h.keep(text)
		}
		if err != nil {
			return 0, err
		}
		h.base = off
	}
	h.base = min(h.base, off)
	return fs.ReadText(h.made, p, off-h.base), nil
}

func (h *narrowed) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	return h.words.Write(ctx, p)
}

// keep keeps the text, if there is room for it.
func (h *narrowed) keep(text string) error {
	n := int64(len(text))
	if h.kept.Add(n) > maxNarrowed {
		h.kept.Add(-n)
		return fmt.Errorf("%w: open files keep %d MiB of such texts: close some, or want less by limit", fs.ErrNoSpace, maxNarrowed>>20)
	}
	h.made = text
	return nil
}

// forget has the text be made anew by the next read.
func (h *narrowed) forget() {
	h.kept.Add(int64(-len(h.made)))
	h.made, h.base = "", -1
}

// Close ends a read that makes the text, and forgets what was made.
func (h *narrowed) Close() error {
	h.closes()
	h.turn <- struct{}{}
	h.forget()
	return nil
}
