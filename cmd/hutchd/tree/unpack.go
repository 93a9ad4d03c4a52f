package tree

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"hutch/fs"
	"hutch/vmm/pack"
)

// unpackHandle is an open file that takes an archive, in order. Each write
// returns when what it brought has been unpacked, and the last has seen whether
// the archive is whole. Closing the file then makes the VM of it; one that is
// closed before makes nothing.
type unpackHandle struct {
	fs.MadeUp
	make func(ctx context.Context, r io.ReadCloser, want pack.Options, whole func()) error
	life context.Context // ends when the file is closed
	end  context.CancelFunc
	done sync.WaitGroup

	whole atomic.Bool // the archive is there to its end

	turn turn  // guards what follows
	to   *feed // nil until something is written
	at   int64 // how much was taken
	late int   // bytes of the last write, whose writer gave up waiting
}

// openUnpack opens a VM that was just made for an archive.
func openUnpack(c call, _ int) (fs.Handle, error) {
	if err := c.At.vm.Fresh(); err != nil {
		return nil, err
	}
	h := &unpackHandle{make: c.At.vm.Unpack, turn: newTurn()}
	h.life, h.end = context.WithCancel(context.Background())
	return h, nil
}

func (h *unpackHandle) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	if err := h.turn.take(ctx); err != nil {
		return 0, err
	}
	defer h.turn.give()
	again := h.late > 0 && off == h.at-int64(h.late) && len(p) == h.late // who was interrupted, as the system has it
	if off != h.at && !again {
		return 0, fmt.Errorf("%w: an archive is written in order: offset %d, not %d", fs.ErrInvalid, h.at, off)
	}
	if h.to == nil {
		h.begin()
	}
	over, err := h.to.settle(ctx)
	if err != nil {
		return 0, err
	}
	if !over && !again && len(p) > 0 {
		h.to.give(bytes.Clone(p))
		h.at, h.late = h.at+int64(len(p)), len(p)
		if over, err = h.to.settle(ctx); err != nil {
			return 0, err
		}
	}
	h.late = 0
	if over {
		return 0, h.result()
	}
	return len(p), nil
}

// begin has what is written be unpacked.
func (h *unpackHandle) begin() {
	h.to = newFeed()
	from := h.to
	h.done.Go(func() { from.end(h.unpack(from.reader(h.life))) })
}

// unpack unpacks what r has, of which a line of words may come first.
func (h *unpackHandle) unpack(r io.Reader) error {
	in, want := bufio.NewReaderSize(r, maxWords), pack.All()
	if first, err := in.Peek(1); err == nil && first[0] != pack.Magic {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("%w: this is no archive", fs.ErrInvalid)
		}
		words, err := fs.Words(strings.TrimSpace(string(line)))
		if err == nil {
			err = want.Set(words)
		}
		if err != nil {
			return fmt.Errorf("%w: this is no archive, nor a line of words before one: %w", fs.ErrInvalid, err)
		}
	}
	return h.make(h.life, closing{Reader: in, close: h.end}, want, func() { h.whole.Store(true) })
}

// closing is a stream whose Close ends what is under way with it.
type closing struct {
	io.Reader
	io.Writer
	close func()
}

func (c closing) Close() error {
	c.close()
	return nil
}

func (h *unpackHandle) ReadAt(context.Context, []byte, int64) (int, error) {
	return 0, fs.ErrPermission
}

// maxWords is the length of the longest line before an archive.
const maxWords = 256

// result is why nothing can be written any more.
func (h *unpackHandle) result() error {
	if h.to.err != nil {
		return h.to.err
	}
	return fmt.Errorf("%w: the archive has ended", fs.ErrInvalid)
}

// Flush makes the VM if the archive is whole. If it is not, it may go on.
func (h *unpackHandle) Flush(ctx context.Context) error {
	if err := h.turn.take(ctx); err != nil {
		return err
	}
	defer h.turn.give()
	if h.to == nil {
		return nil
	}
	over, err := h.to.settle(ctx)
	switch {
	case err != nil:
		return err
	case over:
		return h.to.err
	case !h.whole.Load():
		return h.cut()
	}
	h.to.close()
	select {
	case <-h.to.over:
		return h.to.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errCut = errors.New("it is cut off")

func (h *unpackHandle) cut() error {
	return fmt.Errorf("%w: archive: %w: nothing comes after %d bytes", fs.ErrInvalid, errCut, h.at)
}

func (h *unpackHandle) Close() error {
	h.turn <- struct{}{} // a write that was cancelled may not have returned yet
	if h.to == nil {
		h.end()
		return nil
	}
	if h.whole.Load() {
		h.to.close()
		<-h.to.over
	}
	h.end()
	h.done.Wait()
	if !h.whole.Load() && errors.Is(h.to.err, context.Canceled) {
		return h.cut()
	}
	return h.to.err
}
