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

// packHandle is an open file that gives an archive. The archive is made as it is
// read, and in order: what a reader does not take is not made, and what it was
// given last it can read again.
type packHandle struct {
	fs.MadeUp
	words *fs.Writer
	make  func(ctx context.Context, w io.WriteCloser, want pack.Options) error
	life  context.Context // ends when the file is closed
	end   context.CancelFunc
	made  sync.WaitGroup

	turn chan struct{} // is full while somebody uses what follows
	want pack.Options
	from *pipe  // nil until it is read
	base int64  // offset of the archive's first byte
	last []byte // what was read last
	at   int64  // where that ends, in the archive
}

// openPack opens the archive of a VM. Words that are written before it is read
// say what is in it.
func openPack(c call, flags int) (fs.Handle, error) {
	if flags&os.O_WRONLY != 0 {
		return nil, fmt.Errorf("%w: open it for reading, or for both to write first what is to be in it", fs.ErrPermission)
	}
	h := &packHandle{make: c.At.vm.Pack, want: pack.Usual(), turn: make(chan struct{}, 1)}
	h.life, h.end = context.WithCancel(context.Background())
	h.words = fs.NewLongWriter(h.choose, fs.MaxMessage)
	return h, nil
}

func (h *packHandle) choose(ctx context.Context, line string) error {
	words, err := fs.Words(line)
	if err != nil {
		return err
	}
	if err := take(ctx, h.turn); err != nil {
		return err
	}
	defer give(h.turn)
	if h.from != nil {
		return fmt.Errorf("%w: the archive has begun: open it anew", fs.ErrBusy)
	}
	return h.want.Set(words)
}

// take waits for a turn, and give gives it back.
func take(ctx context.Context, turn chan struct{}) error {
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func give(turn chan struct{}) { <-turn }

func (h *packHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if err := h.words.Complete(ctx); err != nil {
		return 0, err
	}
	if err := take(ctx, h.turn); err != nil {
		return 0, err
	}
	defer give(h.turn)
	if h.from == nil {
		h.begin(off)
	}
	off -= h.base
	if begin := h.at - int64(len(h.last)); off >= begin && off < h.at {
		return copy(p, h.last[off-begin:]), nil
	}
	if off != h.at {
		return 0, fmt.Errorf("%w: an archive is made as it is read: offset %d, not %d", fs.ErrInvalid, h.at+h.base, off+h.base)
	}
	n, err := h.from.read(ctx, p)
	if n > 0 {
		h.last = append(h.last[:0], p[:n]...)
		h.at += int64(n)
	}
	if err == io.EOF {
		err = nil
	}
	return n, err
}

// begin has the archive made. Its first byte is at off: a shell that has written
// words through the same descriptor reads behind them.
func (h *packHandle) begin(off int64) {
	h.from, h.base = newPipe(), off
	to, want := h.from, h.want
	h.made.Go(func() { to.end(h.make(h.life, closing{Writer: to.writer(h.life), close: h.end}, want)) })
}

func (h *packHandle) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	return h.words.Write(ctx, p)
}

func (h *packHandle) Close() error {
	h.end()
	h.made.Wait()
	return nil
}
