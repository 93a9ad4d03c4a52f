package tree

import (
	"context"
	"fmt"
	"io"
	"os"

	"hutch/fs"
	"hutch/vmm/pack"
)

// A packing gives an archive. What of it a reader does not take is not made.
type packing struct {
	file *asked
	make func(ctx context.Context, w io.WriteCloser, want pack.Options) error
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
	k := &packing{make: c.At.vm.Pack, want: pack.Usual()}
	k.file = openAsked(k, fs.MaxMessage)
	return k.file, nil
}

func (k *packing) say(_ context.Context, line string) error {
	words, err := fs.Words(line)
	if err != nil {
		return err
	}
	if k.from != nil {
		return fmt.Errorf("%w: the archive has begun: open it anew", fs.ErrBusy)
	}
	return k.want.Set(words)
}

func (k *packing) read(ctx context.Context, p []byte, off int64) (int, error) {
	if k.from == nil {
		k.begin()
	}
	n, err := k.inOrder.read(p, off, func(p []byte) (int, error) { return k.from.read(ctx, p) })
	if err == io.EOF {
		err = nil
	}
	return n, err
}

// begin has the archive made.
func (k *packing) begin() {
	k.from = newPipe()
	life, end := context.WithCancel(k.file.open)
	to, want := k.from, k.want
	go func() {
		defer end()
		to.end(k.make(life, closing{Writer: to.writer(life), close: end}, want))
	}()
}

// end waits until nothing of it is made any more.
func (k *packing) end() {
	if k.from != nil {
		for range k.from.blocks {
		}
	}
}
