package fstest

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strings"
	"syscall"

	"hutch/fs"
)

// made is a made-up file.
type made struct {
	fs.Refuse
	t    *Tree
	stat fs.Stat
}

func (t *Tree) made(name string, mode os.FileMode) made {
	return made{t: t, stat: fs.Stat{
		Name: name, Mode: mode, Qid: t.qid(), Nlink: 1,
		Atime: born, Mtime: born, Ctime: born,
	}}
}

func (m *made) Stat(context.Context) (fs.Stat, error) { return m.stat, nil }

// allows refuses to open a file for what its mode does not allow.
func (m *made) allows(flags int) error {
	write := flags&(os.O_WRONLY|os.O_RDWR) != 0
	read := flags&os.O_WRONLY == 0
	if write && m.stat.Mode&0o222 == 0 || read && m.stat.Mode&0o444 == 0 {
		return fmt.Errorf("%w: %s", fs.ErrPermission, m.stat.Name)
	}
	return nil
}

// A dir is a directory of fixed entries.
type dir struct {
	made
	entries map[string]fs.Node
}

func (t *Tree) dir(name string) *dir {
	return &dir{t.made(name, os.ModeDir|0o755), map[string]fs.Node{}}
}

func (d *dir) add(name string, n fs.Node) { d.entries[name] = n }

func (d *dir) Walk(_ context.Context, name string) (fs.Node, error) {
	n, ok := d.entries[name]
	if !ok {
		return nil, fmt.Errorf("%w: %s", fs.ErrNotExist, name)
	}
	return n, nil
}

func (d *dir) List(ctx context.Context) ([]fs.Entry, error) {
	var list []fs.Entry
	for name, n := range d.entries {
		st, err := n.Stat(ctx)
		if err != nil {
			return nil, err
		}
		list = append(list, fs.Entry{Name: name, Mode: st.Mode.Type(), Qid: st.Qid})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list, nil
}

// A textFile has a fixed text.
type textFile struct {
	made
	text string
}

type textHandle struct {
	open
	text string
}

func (t *Tree) text(name, text string) *textFile { return &textFile{t.made(name, 0o444), text} }

func (f *textFile) Open(_ context.Context, flags int) (fs.Handle, error) {
	if err := f.allows(flags); err != nil {
		return nil, err
	}
	return &textHandle{f.t.opened(), f.text}, nil
}

func (h *textHandle) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	return fs.ReadText(h.text, p, off), nil
}

// A ctlFile records messages.
type ctlFile struct{ made }

type ctlHandle struct{ open }

func (f *ctlFile) Open(context.Context, int) (fs.Handle, error) {
	return &ctlHandle{f.t.opened()}, nil
}

func (h *ctlHandle) ReadAt(context.Context, []byte, int64) (int, error) { return 0, nil }

func (h *ctlHandle) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	switch strings.TrimSpace(string(p)) {
	case "bad":
		return 0, fmt.Errorf("%w: unknown control message %q", fs.ErrInvalid, "bad")
	case "slow":
		if err := h.t.block(ctx, func() bool { return h.t.released }); err != nil {
			return 0, err
		}
	}
	h.t.update(func() { h.t.messages = append(h.t.messages, string(p)) })
	return len(p), nil
}

// An eventFile is a stream of all that was pushed.
type eventFile struct{ made }

type eventHandle struct {
	open
	nonblock bool
}

func (f *eventFile) Open(_ context.Context, flags int) (fs.Handle, error) {
	if err := f.allows(flags); err != nil {
		return nil, err
	}
	return &eventHandle{f.t.opened(), flags&syscall.O_NONBLOCK != 0}, nil
}

func (h *eventHandle) Stream() bool { return true }

func (h *eventHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	n, ended := h.next(p, off)
	if n > 0 || ended {
		return n, nil
	}
	if h.nonblock {
		return 0, fs.ErrAgain
	}
	more := func() bool { return int64(len(h.t.events)) > off || h.t.ended }
	if err := h.t.block(ctx, more); err != nil {
		return 0, err
	}
	n, _ = h.next(p, off)
	return n, nil
}

func (h *eventHandle) next(p []byte, off int64) (n int, ended bool) {
	h.t.mu.Lock()
	defer h.t.mu.Unlock()
	if off < int64(len(h.t.events)) {
		n = copy(p, h.t.events[off:])
	}
	return n, h.t.ended
}

// A waitFile blocks whoever reads or writes it.
type waitFile struct{ made }

type waitHandle struct{ open }

func (f *waitFile) Open(context.Context, int) (fs.Handle, error) {
	return &waitHandle{f.t.opened()}, nil
}

func (h *waitHandle) Stream() bool { return true }

func (h *waitHandle) ReadAt(ctx context.Context, _ []byte, _ int64) (int, error) {
	return 0, h.t.block(ctx, func() bool { return false })
}

func (h *waitHandle) WriteAt(ctx context.Context, _ []byte, _ int64) (int, error) {
	return 0, h.t.block(ctx, func() bool { return false })
}

// A bigFile has many zeros.
type bigFile struct{ made }

type bigHandle struct{ open }

func (f *bigFile) Stat(context.Context) (fs.Stat, error) {
	f.t.mu.Lock()
	defer f.t.mu.Unlock()
	st := f.stat
	st.Size = f.t.big
	return st, nil
}

func (f *bigFile) Open(_ context.Context, flags int) (fs.Handle, error) {
	if err := f.allows(flags); err != nil {
		return nil, err
	}
	return &bigHandle{f.t.opened()}, nil
}

func (h *bigHandle) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	h.t.mu.Lock()
	left := int64(h.t.big) - off
	h.t.mu.Unlock()
	n := int(max(0, min(left, int64(len(p)))))
	clear(p[:n])
	return n, nil
}

// A linkFile points to status.
type linkFile struct{ made }

func (f *linkFile) Readlink(context.Context) (string, error) { return "status", nil }
func (f *linkFile) Open(context.Context, int) (fs.Handle, error) {
	return nil, syscall.ELOOP
}
