package hostmcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"hutch/fs"
	"hutch/fs/ninep"
	"hutch/fs/ninep/client"
	"hutch/fs/ninep/wire"
)

// A tree is hutchd's, by path, over a connection that one call has for itself:
// so the text of an error is that of its own last one, and what it holds open
// goes with it.
type tree struct {
	c    *client.Conn
	free func() bool // has the connection outlive the call
}

// answerLimit is how long hutchd may take over what is quick. What bounds a
// call is its context; a snapshot of much takes its time.
const answerLimit = time.Hour

// dial attaches to the tree at addr. The connection ends with ctx, and with
// close.
func dial(ctx context.Context, addr string) (*tree, error) {
	network, address, err := ninep.SplitAddr(addr)
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c, err := client.New(ctx, conn, answerLimit)
	if err != nil {
		return nil, err
	}
	return &tree{c, context.AfterFunc(ctx, func() { c.End(client.ErrLost) })}, nil
}

func (t *tree) close() {
	t.free()
	t.c.Close()
}

// failed tells what failed, by the text of hutchd where that says more.
func (t *tree) failed(ctx context.Context, op, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case t.c.Ended() != nil:
		return fmt.Errorf("%s %s: %w", op, name, err)
	}
	err = fmt.Errorf("%s %s: %w", op, name, err)
	if text, terr := t.c.LastError(ctx); terr == nil && fs.SaysMore(text, err) {
		return &fs.Told{Text: text, Err: err}
	}
	return err
}

func (t *tree) open(ctx context.Context, name string, flags int) (*file, error) {
	f, err := t.c.Open(ctx, wire.Path(name), flags)
	if err != nil {
		return nil, t.failed(ctx, "open", name, err)
	}
	return &file{f: f, t: t, name: name}, nil
}

// create makes a file, or empties the one there is.
func (t *tree) create(ctx context.Context, name string, perm os.FileMode) (*file, error) {
	f, err := t.open(ctx, name, os.O_WRONLY|os.O_TRUNC)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	fid, err := t.c.Walk(ctx, wire.Path(path.Dir(name)))
	if err != nil {
		return nil, t.failed(ctx, "create", name, err)
	}
	if err := fid.Create(ctx, path.Base(name), os.O_WRONLY|os.O_TRUNC, perm); err != nil {
		defer fid.Clunk()
		return nil, t.failed(ctx, "create", name, err)
	}
	return &file{f: fid, t: t, name: name}, nil
}

// store writes a file as a whole.
func (t *tree) store(ctx context.Context, name string, text []byte, perm os.FileMode) error {
	f, err := t.create(ctx, name, perm)
	if err != nil {
		return err
	}
	return f.finish(ctx, text)
}

func (t *tree) mkdir(ctx context.Context, name string) error {
	return t.failed(ctx, "mkdir", name, t.c.At(ctx, wire.Path(path.Dir(name)), func(dir *client.Fid) error {
		return dir.Mkdir(ctx, path.Base(name), 0o755)
	}))
}

// remove removes a file, or with dir an empty directory.
func (t *tree) remove(ctx context.Context, name string, dir bool) error {
	return t.failed(ctx, "remove", name, t.c.At(ctx, wire.Path(path.Dir(name)), func(f *client.Fid) error {
		return f.Remove(ctx, path.Base(name), dir)
	}))
}

func (t *tree) stat(ctx context.Context, name string) (fs.Stat, error) {
	st, err := t.c.Stat(ctx, wire.Path(name))
	return st, t.failed(ctx, "stat", name, err)
}

func (t *tree) list(ctx context.Context, name string) ([]fs.Entry, error) {
	list, err := t.c.List(ctx, wire.Path(name))
	return list, t.failed(ctx, "list", name, err)
}

// folders lists the directories in a directory.
func (t *tree) folders(ctx context.Context, name string) (names []string, err error) {
	list, err := t.list(ctx, name)
	for _, e := range list {
		if e.Mode.IsDir() {
			names = append(names, e.Name)
		}
	}
	return names, err
}

func (t *tree) readlink(ctx context.Context, name string) (target string, err error) {
	err = t.c.At(ctx, wire.Path(name), func(f *client.Fid) (err error) {
		target, err = f.Readlink(ctx)
		return err
	})
	return target, t.failed(ctx, "readlink", name, err)
}

// maxText is how much of a made-up file is read as a whole.
const maxText = 16 << 20

// text reads a file to its end.
func (t *tree) text(ctx context.Context, name string) (string, error) {
	f, err := t.open(ctx, name, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.close()
	return f.text(ctx)
}

// tell writes messages to a ctl, or text to another file, as echo does.
func (t *tree) tell(ctx context.Context, name string, messages ...string) error {
	f, err := t.open(ctx, name, os.O_WRONLY|os.O_TRUNC)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if err := f.tell(ctx, m); err != nil {
			f.close()
			return err
		}
	}
	return f.finish(ctx, nil)
}

// ask writes a line to a file and reads what it answers on the same open file.
func (t *tree) ask(ctx context.Context, name string, lines ...string) (string, error) {
	f, err := t.open(ctx, name, os.O_RDWR)
	if err != nil {
		return "", err
	}
	defer f.close()
	for _, line := range lines {
		if err := f.tell(ctx, line); err != nil {
			return "", err
		}
	}
	f.off = 0
	return f.text(ctx)
}

// clone makes an anonymous object of dir. It lives as long as the file.
func (t *tree) clone(ctx context.Context, dir string) (ctl *file, name string, err error) {
	f, err := t.open(ctx, path.Join(dir, "clone"), os.O_RDWR)
	if err != nil {
		return nil, "", err
	}
	p := make([]byte, 64)
	n, err := f.read(ctx, p)
	if err != nil {
		f.close()
		return nil, "", err
	}
	return f, strings.TrimSpace(string(p[:n])), nil
}

// A file is an open file, read and written from its start on.
type file struct {
	f    *client.Fid
	t    *tree
	name string
	off  int64
}

// read reads what there is, or what comes, of what fits into p. At the end
// that is nothing.
func (f *file) read(ctx context.Context, p []byte) (int, error) {
	n, err := f.f.ReadAt(ctx, client.Stream, p, f.off)
	f.off += int64(n)
	return n, f.t.failed(ctx, "read", f.name, err)
}

// part reads until the end, limit bytes at most. With an error it returns what it
// had read before.
func (f *file) part(ctx context.Context, limit int64) (part []byte, err error) {
	p := make([]byte, min(64<<10, limit))
	for int64(len(part)) < limit {
		n, err := f.read(ctx, p[:min(int64(len(p)), limit-int64(len(part)))])
		if err != nil || n == 0 {
			return part, err
		}
		part = append(part, p[:n]...)
	}
	return part, nil
}

func (f *file) text(ctx context.Context) (string, error) {
	text, err := f.part(ctx, maxText+1)
	if len(text) > maxText {
		return "", fmt.Errorf("%w: %s: more than %d bytes", fs.ErrTooLarge, f.name, maxText)
	}
	return string(text), err
}

func (f *file) write(ctx context.Context, p []byte) error {
	n, err := f.f.Write(ctx, client.Stream, p, f.off)
	f.off += int64(n)
	return f.t.failed(ctx, "write", f.name, err)
}

func (f *file) tell(ctx context.Context, message string) error {
	return f.write(ctx, []byte(message+"\n"))
}

// finish writes the last of a file and closes it, which may be what fails.
func (f *file) finish(ctx context.Context, p []byte) error {
	if len(p) > 0 {
		if err := f.write(ctx, p); err != nil {
			f.close()
			return err
		}
	}
	return f.t.failed(ctx, "close", f.name, f.f.Close(ctx))
}

func (f *file) close() { f.f.Clunk() }

// again says whether err is that of a read that would block.
func again(err error) bool { return fs.Errno(err) == syscall.EAGAIN }

// pairs returns the values of a text's key value lines.
func pairs(text string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		key, value := fs.CutBlank(strings.TrimSpace(line))
		if key == "" || key[0] == '#' {
			continue
		}
		if value = strings.TrimSpace(value); m[key] != "" {
			value = m[key] + "; " + value // as of several servers
		}
		m[key] = value
	}
	return m
}
