package tree

import (
	"context"
	"fmt"
	"os"

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
	text   func(context.Context, timeline.Query) (string, error)
	open   context.Context // done when the file is closed
	closes context.CancelFunc

	turn  turn // guards what follows, and is held while the text is made
	query timeline.Query
	made  string
	base  int64 // offset of the text's first byte; -1: it is to be made
}

func openNarrowed(flags int, words []fs.Verb[*timeline.Query], text func(context.Context, timeline.Query) (string, error)) (fs.Handle, error) {
	if flags&(os.O_WRONLY|os.O_RDWR) == os.O_WRONLY {
		return nil, fmt.Errorf("%w: open it for reading and writing: write what is wanted, read it on the same open file", fs.ErrPermission)
	}
	h := &narrowed{text: text, turn: newTurn(), base: -1}
	h.open, h.closes = context.WithCancel(context.Background())
	h.words = fs.NewWriter(words, func(ctx context.Context, m string) error {
		if err := h.turn.take(ctx); err != nil {
			return err
		}
		defer h.turn.give()
		if err := h.query.Narrow(words, m); err != nil {
			return err
		}
		h.made, h.base = "", -1
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
		if err != nil {
			return 0, err
		}
		h.made, h.base = text, off
	}
	h.base = min(h.base, off)
	return fs.ReadText(h.made, p, off-h.base), nil
}

func (h *narrowed) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	return h.words.Write(ctx, p)
}

func (h *narrowed) Close() error {
	h.closes()
	return nil
}
