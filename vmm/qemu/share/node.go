package share

import (
	"context"
	"fmt"
	"os"

	"hutch/fs"
)

// top is the directory of the folders.
type top struct {
	fs.Refuse
	s *Share
}

func (t top) Stat(context.Context) (fs.Stat, error) {
	return fs.Stat{Name: "/", Mode: os.ModeDir | 0o555, Qid: 1, Nlink: 1}, nil
}

func (t top) Walk(_ context.Context, name string) (fs.Node, error) {
	for i, as := range t.s.list {
		if as.Name == name {
			return shown{t.s.folders[i].Root(), t.s, as.ReadOnly}, nil
		}
	}
	return nil, fmt.Errorf("%w: %s", fs.ErrNotExist, name)
}

func (t top) List(ctx context.Context) ([]fs.Entry, error) {
	var list []fs.Entry
	for i, as := range t.s.list {
		st, err := t.s.folders[i].Root().Stat(ctx)
		if err != nil {
			return nil, err
		}
		list = append(list, fs.Entry{Name: as.Name, Mode: os.ModeDir, Qid: st.Qid})
	}
	return list, nil
}

// shown is a file as the guest has it.
type shown struct {
	fs.Node
	s        *Share
	readOnly bool
}

var errReadOnly = fmt.Errorf("%w: the folder is read-only", fs.ErrPermission)

// use does f, which looks at the file.
func (n shown) use(f func() error) error {
	if err := n.s.gate.enter(); err != nil {
		return err
	}
	defer n.s.gate.leave()
	return f()
}

// change does f, which changes something.
func (n shown) change(f func() error) error {
	if n.readOnly {
		return errReadOnly
	}
	return n.use(f)
}

// like shows another file of the same folder.
func (n shown) like(other fs.Node, err error) (fs.Node, error) {
	if err != nil {
		return nil, err
	}
	return shown{other, n.s, n.readOnly}, nil
}

// plain returns the file behind one that is shown.
func plain(n fs.Node) fs.Node {
	if s, ok := n.(shown); ok {
		return s.Node
	}
	return n
}

func (n shown) Stat(ctx context.Context) (st fs.Stat, err error) {
	err = n.use(func() (err error) { st, err = n.Node.Stat(ctx); return })
	return st, err
}

func (n shown) Space(ctx context.Context) (sp fs.Space, err error) {
	err = n.use(func() (err error) { sp, err = fs.SpaceOf(ctx, n.Node); return })
	return sp, err
}

func (n shown) Walk(ctx context.Context, name string) (to fs.Node, err error) {
	err = n.use(func() (err error) { to, err = n.like(n.Node.Walk(ctx, name)); return })
	return to, err
}

func (n shown) List(ctx context.Context) (list []fs.Entry, err error) {
	err = n.use(func() (err error) { list, err = n.Node.List(ctx); return })
	return list, err
}

func (n shown) Describe(ctx context.Context) (list []fs.Described, err error) {
	err = n.use(func() (err error) { list, err = fs.Describe(ctx, n.Node); return })
	return list, err
}

func (n shown) Readlink(ctx context.Context) (to string, err error) {
	err = n.use(func() (err error) { to, err = n.Node.Readlink(ctx); return })
	return to, err
}

func (n shown) Open(ctx context.Context, flags int) (h fs.Handle, err error) {
	if err := n.s.enter(); err != nil {
		return nil, err
	}
	begin := n.use
	if flags&(os.O_WRONLY|os.O_RDWR|os.O_TRUNC) != 0 {
		begin = n.change
	}
	err = begin(func() (err error) { h, err = n.Node.Open(ctx, flags); return })
	return n.handle(h, err)
}

func (n shown) Create(ctx context.Context, name string, flags int, perm os.FileMode) (to fs.Node, h fs.Handle, err error) {
	if err := n.s.enter(); err != nil {
		return nil, nil, err
	}
	err = n.change(func() (err error) { to, h, err = n.Node.Create(ctx, name, flags, perm); return })
	if h, err = n.handle(h, err); err != nil {
		return nil, nil, err
	}
	to, err = n.like(to, nil)
	return to, h, err
}

func (n shown) Mkdir(ctx context.Context, name string, perm os.FileMode) (to fs.Node, err error) {
	err = n.change(func() (err error) { to, err = n.like(n.Node.Mkdir(ctx, name, perm)); return })
	return to, err
}

func (n shown) Symlink(ctx context.Context, name, target string) (to fs.Node, err error) {
	err = n.change(func() (err error) { to, err = n.like(n.Node.Symlink(ctx, name, target)); return })
	return to, err
}

func (n shown) Link(ctx context.Context, name string, target fs.Node) (to fs.Node, err error) {
	err = n.change(func() (err error) { to, err = n.like(n.Node.Link(ctx, name, plain(target))); return })
	return to, err
}

func (n shown) Remove(ctx context.Context, name string, dir bool) error {
	return n.change(func() error { return n.Node.Remove(ctx, name, dir) })
}

func (n shown) Rename(ctx context.Context, name string, dst fs.Node, newname string) error {
	return n.change(func() error { return n.Node.Rename(ctx, name, plain(dst), newname) })
}

func (n shown) Set(ctx context.Context, c fs.Change) error {
	return n.change(func() error { return n.Node.Set(ctx, c) })
}

// handle shows an open file, for which its maker has entered.
func (n shown) handle(h fs.Handle, err error) (fs.Handle, error) {
	if err != nil {
		n.s.leave()
		return nil, err
	}
	return open{h, n}, nil
}

// open is an open file as the guest has it.
type open struct {
	fs.Handle
	of shown
}

func (o open) ReadAt(ctx context.Context, p []byte, off int64) (got int, err error) {
	err = o.of.use(func() (err error) { got, err = o.Handle.ReadAt(ctx, p, off); return })
	return got, err
}

func (o open) WriteAt(ctx context.Context, p []byte, off int64) (done int, err error) {
	err = o.of.use(func() (err error) { done, err = o.Handle.WriteAt(ctx, p, off); return })
	return done, err
}

// Stat describes the file, also one that was removed.
func (o open) Stat(ctx context.Context) (st fs.Stat, err error) {
	err = o.of.use(func() (err error) { st, err = o.Handle.Stat(ctx); return })
	return st, err
}

func (o open) Sync(ctx context.Context) error {
	return o.of.use(func() error { return o.Handle.Sync(ctx) })
}

func (o open) Close() error {
	defer o.of.s.leave()
	return o.Handle.Close()
}
