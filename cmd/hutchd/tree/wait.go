package tree

import (
	"context"
	"syscall"

	"hutch/cmd/hutchd/sandbox"
	"hutch/fs"
)

// openWait opens wait: at the host's own wait for the command, or at the
// guest's for one that an earlier service started.
func openWait(c call, flags int) (fs.Handle, error) {
	r := c.At.exec.Result()
	if r == nil {
		return c.At.exec.Open(c.Ctx, "wait", flags)
	}
	return &waitHandle{result: r, nonblock: flags&syscall.O_NONBLOCK != 0}, nil
}

// waitHandle is an open wait file.
type waitHandle struct {
	fs.MadeUp
	result   *sandbox.Result
	nonblock bool
}

func (h *waitHandle) Stream() bool { return true }

func (h *waitHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	line, err := h.result.Wait(ctx, h.nonblock)
	return fs.ReadText(line, p, off), err
}

// A vmFile is an open file of the guest. Its error tells why there is no
// guest any more.
type vmFile struct {
	fs.Handle
	vm *sandbox.Sandbox
}

func (f vmFile) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	n, err := f.Handle.ReadAt(ctx, p, off)
	return n, f.vm.WhyGone(err)
}

func (f vmFile) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	n, err := f.Handle.WriteAt(ctx, p, off)
	return n, f.vm.WhyGone(err)
}
