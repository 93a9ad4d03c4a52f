package tree

import (
	"context"

	"hutch/fs"
)

// cloneHandle is an open clone file: the ctl of an object that goes when the
// last of its files is closed. Reading it completes a message that has no
// newline, and gives the object's name.
type cloneHandle struct {
	fs.MadeUp
	name    func() string // which a VM can change
	message *fs.Writer
	at      at
	release func()
}

// openClone returns the ctl of the object that a leads to.
func openClone(a at, name func() string, verbs []verb) fs.Handle {
	do := func(ctx context.Context, m string) error {
		return fs.Run(verbs, call{Ctx: ctx, At: a, Name: "ctl"}, m)
	}
	return &cloneHandle{
		name: name, at: a, release: hold(a),
		message: fs.NewWriter(verbs, do),
	}
}

func (h *cloneHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if err := h.message.Complete(ctx); err != nil {
		return 0, h.fail(err)
	}
	return fs.ReadText(h.name()+"\n", p, off), nil
}

func (h *cloneHandle) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	n, err := h.message.Write(ctx, p)
	return n, h.fail(err)
}

func (h *cloneHandle) Flush(ctx context.Context) error { return h.fail(h.message.Flush(ctx)) }

// fail tells the object, which is not the one that the file clone is of.
func (h *cloneHandle) fail(err error) error {
	if err != nil && h.at.vm != nil {
		h.at.vm.LastErr.Set(err)
	}
	return err
}

func (h *cloneHandle) Close() error {
	h.release()
	return nil
}

// hold counts an open file of an object; what it returns counts it closed.
// When the last file of an anonymous object is closed, the object goes.
func hold(a at) func() {
	switch {
	case a.exec != nil:
		return a.exec.Hold()
	case a.session != nil:
		return a.session.Hold()
	case a.tcp != nil:
		return a.tcp.Hold()
	case a.vm != nil:
		return a.vm.Hold()
	}
	return nil
}
