package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"hutch/fs"
	"hutch/fs/ninep/client"
)

// An Exec is one command of a guest. Its files are those of the agent's
// exec/NAME.
type Exec struct {
	g    *Guest
	name string
	ctl  *file // opened at its first use, and kept

	opening sync.WaitGroup // of ctl, before its first use
}

func newExec(g *Guest, name string) *Exec {
	e := &Exec{g: g, name: name}
	e.ctl = newFile(g, e.path("ctl"), os.O_WRONLY, false)
	return e
}

func (e *Exec) path(name string) []string { return []string{"exec", e.name, name} }

// openEarly opens ctl in the background: the next thing that is done to a new
// exec is a message to it. If this fails, the message tries again and tells.
func (e *Exec) openEarly() {
	e.opening.Add(1)
	if !e.g.background(func() {
		defer e.opening.Done()
		ctx, cancel := e.g.limited(e.g.ctx)
		defer cancel()
		if e.ctl.enter() == nil {
			defer e.ctl.leave()
			e.ctl.open(ctx)
		}
	}) {
		e.opening.Done()
	}
}

// Ctl writes messages to the exec's ctl, at once. The error is the agent's, of the
// first that failed; those behind it are not done.
func (e *Exec) Ctl(ctx context.Context, messages ...string) error {
	for _, m := range messages {
		if err := fs.CheckMessage(m); err != nil {
			return err
		}
	}
	err := e.write(ctx, strings.Join(messages, "\n"))
	return e.g.explain(ctx, err, e.path("err")...)
}

// write writes messages. What takes several writes has a file of its
// own: another's would come in between.
func (e *Exec) write(ctx context.Context, message string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, client.SlowTimes*e.g.limit, client.ErrLate)
	defer cancel()
	if err := e.ctl.enter(); err != nil {
		return fmt.Errorf("%w: exec %s is gone", fs.ErrNotExist, e.name)
	}
	defer e.ctl.leave()
	fid, err := e.ctl.bind(ctx)
	switch {
	case err != nil:
		return err
	case len(message) >= fid.Conn().Room():
		return tell(ctx, fid.Conn(), client.Slow, e.path("ctl"), message)
	}
	return writeMessage(ctx, client.Slow, fid, message)
}

// Read returns the text of one of the exec's files: status, cmd, err, ctl.
func (e *Exec) Read(ctx context.Context, name string) (string, error) {
	if err := fs.CheckName(name); err != nil {
		return "", err
	}
	return e.g.text(ctx, e.path(name))
}

// Open opens one of the exec's streams: stdin, stdout, stderr, wait.
func (e *Exec) Open(ctx context.Context, name string, flags int) (fs.Handle, error) {
	if err := fs.CheckName(name); err != nil {
		return nil, err
	}
	f, err := e.g.openFile(ctx, e.path(name), flags, true)
	switch {
	case err != nil:
		return nil, err
	case name == "stdin":
		return &stdinHandle{f}, nil
	case name == "stdout" || name == "stderr":
		return &output{file: f, e: e, name: name}, nil
	}
	return f, nil
}

// Wait returns the line of the exec's wait when the command has ended, however
// long the guest is away meanwhile.
func (e *Exec) Wait(ctx context.Context) (string, error) {
	f := newFile(e.g, e.path("wait"), os.O_RDONLY, true)
	defer f.Close()
	p := make([]byte, 256)
	n, err := f.ReadAt(ctx, p, 0)
	return string(p[:n]), err
}

// A stdinHandle is an open stdin. That it is closed has to reach the guest,
// as it may be the end of the input.
type stdinHandle struct{ *file }

func (h *stdinHandle) Close() error {
	if h.enter() != nil {
		return nil
	}
	if !h.shut() || !h.g.background(func() { h.hangUp(h.g.ctx) }) {
		h.leave()
	}
	return nil
}

// hangUp closes the file in the guest, on this connection or the next, and
// leaves it.
func (f *file) hangUp(ctx context.Context) {
	defer f.leave()
	for {
		fid, err := f.bind(ctx)
		if err != nil {
			return
		}
		f.forsake()
		if err = fid.Close(ctx); !errors.Is(err, client.ErrLost) {
			return
		}
	}
}

// Remove drops the exec; what runs is killed.
func (e *Exec) Remove(ctx context.Context) error {
	e.opening.Wait()
	e.ctl.Close()
	err := e.g.once(ctx, func(ctx context.Context, c *client.Conn) error {
		return e.g.inExecs(ctx, c, func(dir *client.Fid) error { return dir.Remove(ctx, e.name, true) })
	})
	return e.g.explain(ctx, err, "err")
}
