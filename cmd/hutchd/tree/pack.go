package tree

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"hutch/fs"
	"hutch/vmm/pack"
)

// packHandle is an open file that gives an archive. What of it a reader does not
// take is not made.
type packHandle struct {
	fs.MadeUp
	words *fs.Writer
	make  func(ctx context.Context, w io.WriteCloser, want pack.Options) error
	life  context.Context // ends when the file is closed
	end   context.CancelFunc
	made  sync.WaitGroup

	turn turn // guards what follows
	want pack.Options
	from *pipe // nil until it is read
	inOrder
}

// openPack opens the archive of a VM. Words that are written before it is read
// say what is in it.
func openPack(c call, flags int) (fs.Handle, error) {
	if flags&os.O_WRONLY != 0 {
		return nil, fmt.Errorf("%w: open it for reading, or for both to write first what is to be in it", fs.ErrPermission)
	}
	h := &packHandle{make: c.At.vm.Pack, want: pack.Usual(), turn: newTurn()}
	h.life, h.end = context.WithCancel(context.Background())
	h.words = fs.NewLongWriter(h.choose, fs.MaxMessage)
	return h, nil
}

func (h *packHandle) choose(ctx context.Context, line string) error {
	words, err := fs.Words(line)
	if err != nil {
		return err
	}
	if err := h.turn.take(ctx); err != nil {
		return err
	}
	defer h.turn.give()
	if h.from != nil {
		return fmt.Errorf("%w: the archive has begun: open it anew", fs.ErrBusy)
	}
	return h.want.Set(words)
}

func (h *packHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if err := h.words.Complete(ctx); err != nil {
		return 0, err
	}
	if err := h.turn.take(ctx); err != nil {
		return 0, err
	}
	defer h.turn.give()
	if h.from == nil {
		h.begin()
	}
	n, err := h.read(p, off, func(p []byte) (int, error) { return h.from.read(ctx, p) })
	if err == io.EOF {
		err = nil
	}
	return n, err
}

// begin has the archive made.
func (h *packHandle) begin() {
	h.from = newPipe()
	to, want := h.from, h.want
	h.made.Go(func() { to.end(h.make(h.life, closing{Writer: to.writer(h.life), close: h.end}, want)) })
}

func (h *packHandle) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	return h.words.Write(ctx, p)
}

func (h *packHandle) Close() error {
	h.end()
	h.turn <- struct{}{} // a read that was cancelled may not have returned yet
	h.made.Wait()
	return nil
}
