package fstest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"hutch/fs"
)

// born is the time of every made-up file.
var born = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// A made is a made-up file: what is set says of which kind.
type made struct {
	fs.Refuse
	t       *Tree
	stat    fs.Stat
	size    func() uint64             // of one that has any
	entries map[string]fs.Node        // of a directory
	target  string                    // of a link
	open    func(flags int) fs.Handle // of a file
}

func (t *Tree) made(name string, mode os.FileMode) *made {
	t.files++
	return &made{t: t, stat: fs.Stat{
		Name: name, Mode: mode, Qid: t.files, Nlink: 1,
		Atime: born, Mtime: born, Ctime: born,
	}}
}

func (t *Tree) dir(name string, entries map[string]fs.Node) *made {
	d := t.made(name, os.ModeDir|0o755)
	d.entries = entries
	return d
}

func (t *Tree) link(name, target string) *made {
	l := t.made(name, os.ModeSymlink|0o777)
	l.target = target
	return l
}

func (t *Tree) file(name string, mode os.FileMode, open func(flags int) fs.Handle) *made {
	f := t.made(name, mode)
	f.open = open
	return f
}

func (t *Tree) text(name, text string) *made {
	return t.file(name, 0o444, func(int) fs.Handle { return fs.OpenText(text) })
}

func (m *made) Stat(context.Context) (fs.Stat, error) {
	st := m.stat
	if m.size != nil {
		st.Size = m.size()
	}
	return st, nil
}

func (m *made) Walk(_ context.Context, name string) (fs.Node, error) {
	n, ok := m.entries[name]
	switch {
	case m.entries == nil:
		return nil, fs.ErrNotDir
	case !ok:
		return nil, fmt.Errorf("%w: %s", fs.ErrNotExist, name)
	}
	return n, nil
}

func (m *made) List(ctx context.Context) ([]fs.Entry, error) {
	if m.entries == nil {
		return nil, fs.ErrNotDir
	}
	var list []fs.Entry
	for _, name := range slices.Sorted(maps.Keys(m.entries)) {
		st, err := m.entries[name].Stat(ctx)
		if err != nil {
			return nil, err
		}
		list = append(list, fs.Entry{Name: name, Mode: st.Mode.Type(), Qid: st.Qid})
	}
	return list, nil
}

func (m *made) Readlink(context.Context) (string, error) {
	if m.target == "" {
		return "", fs.ErrInvalid
	}
	return m.target, nil
}

// Open refuses to open a file for what its mode does not allow.
func (m *made) Open(_ context.Context, flags int) (fs.Handle, error) {
	write := flags&(os.O_WRONLY|os.O_RDWR) != 0
	read := flags&os.O_WRONLY == 0
	switch {
	case m.entries != nil:
		return nil, fs.ErrIsDir
	case m.target != "":
		return nil, syscall.ELOOP
	case write && m.stat.Mode&0o222 == 0, read && m.stat.Mode&0o444 == 0:
		return nil, fmt.Errorf("%w: %s", fs.ErrPermission, m.stat.Name)
	}
	return m.t.opened(m.open(flags)), nil
}

// A ctl records messages.
type ctl struct {
	fs.MadeUp
	t *Tree
}

func (h ctl) ReadAt(context.Context, []byte, int64) (int, error) { return 0, nil }

func (h ctl) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
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

// Events are a stream of all that was pushed.
type events struct {
	fs.MadeUp
	t        *Tree
	nonblock bool
}

func (h events) Stream() bool { return true }

func (h events) ReadAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	answered := func() bool {
		switch {
		case off < int64(len(h.t.events)):
			n = copy(p, h.t.events[off:])
		case h.t.ended:
		case h.nonblock:
			err = fs.ErrAgain
		default:
			return false
		}
		return true
	}
	if err := h.t.block(ctx, answered); err != nil {
		return 0, err
	}
	return n, err
}

// A wait blocks whoever reads or writes it.
type wait struct {
	fs.MadeUp
	t *Tree
}

func (h wait) Stream() bool { return true }

func (h wait) ReadAt(ctx context.Context, _ []byte, _ int64) (int, error) {
	return 0, h.t.block(ctx, func() bool { return false })
}

func (h wait) WriteAt(ctx context.Context, _ []byte, _ int64) (int, error) {
	return 0, h.t.block(ctx, func() bool { return false })
}

// Zeros are as many as there are in big.
type zeros struct {
	fs.MadeUp
	t *Tree
}

func (h zeros) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	n := int(max(0, min(int64(h.t.size())-off, int64(len(p)))))
	clear(p[:n])
	return n, nil
}
