package fs

import (
	"context"
	"fmt"
	"os"
	"syscall"
)

// under returns the directory whose entries stand beside the row's own, or
// nil if it has none now.
func (n *rowNode[T]) under(ctx context.Context) (Node, error) {
	if n.row.Under == nil {
		return nil, nil
	}
	u, err := n.row.Under(n.call(ctx))
	return For(u, n.who), err
}

func (n *rowNode[T]) walkUnder(ctx context.Context, name string) (Node, error) {
	u, err := n.under(ctx)
	switch {
	case err != nil:
		return nil, err
	case u == nil:
		return nil, fmt.Errorf("%w: %s", ErrNotExist, name)
	}
	return u.Walk(ctx, name)
}

// A wrapper stands in front of another directory.
type wrapper interface {
	under(context.Context) (Node, error)
}

// Inner returns the directory that takes the entries of dir: what lies under
// a row, or dir itself. Renames between directories need it.
func Inner(ctx context.Context, dir Node) Node {
	if w, ok := dir.(wrapper); ok {
		if u, err := w.under(ctx); err == nil && u != nil {
			return u
		}
	}
	return dir
}

// Rename moves what lies under the row, or a scratch file. One that gets the name of
// a file of the tree is written to that.
func (n *rowNode[T]) Rename(ctx context.Context, name string, dst Node, newname string) error {
	u, err := n.under(ctx)
	d, row := dst.(*rowNode[T])
	switch f := n.scratch(name); {
	case err != nil:
		return n.fail(err)
	case f != nil && !row:
		return n.fail(syscall.EXDEV)
	case f != nil:
		return n.renameScratch(ctx, name, f, d, newname)
	case u == nil || n.fixed(name) != nil:
		return n.fail(n.backup(ctx, name, d, newname))
	case row && d.fixed(newname) != nil:
		_, h, err := d.Create(ctx, newname, os.O_WRONLY, 0)
		if err == nil {
			h.Close()
			err = fmt.Errorf("%w: %s cannot be renamed to %s", ErrNotPermitted, name, newname)
		}
		return n.fail(err)
	}
	return n.fail(u.Rename(ctx, name, Inner(ctx, dst), newname))
}

func (n *rowNode[T]) Symlink(ctx context.Context, name, target string) (Node, error) {
	if u, err := n.under(ctx); u != nil && err == nil && n.fixed(name) == nil {
		made, err := u.Symlink(ctx, name, target)
		return made, n.fail(err)
	}
	return nil, n.fail(fmt.Errorf("%w: no link can be made in %s", ErrNotPermitted, n.name))
}

func (n *rowNode[T]) Link(ctx context.Context, name string, target Node) (Node, error) {
	if u, err := n.under(ctx); u != nil && err == nil && n.fixed(name) == nil {
		made, err := u.Link(ctx, name, target)
		return made, n.fail(err)
	}
	if f, ok := target.(*scratchNode); ok {
		return n.linkScratch(ctx, name, f.f)
	}
	return nil, n.fail(fmt.Errorf("%w: no link can be made in %s", ErrNotPermitted, n.name))
}
