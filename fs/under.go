package fs

import (
	"context"
	"fmt"
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

// admitted says whether name may be made in the directory under the row.
func (n *rowNode[T]) admitted(name string) bool {
	return n.fixed(name) == nil && (n.row.Admit == nil || n.row.Admit(name))
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

// Rename moves what lies under the row. Editors save by a rename over the
// old file, or by a rename of it to a backup: a stored file of the row's own
// takes the text of the one, and is copied to the other.
func (n *rowNode[T]) Rename(ctx context.Context, name string, dst Node, newname string) error {
	u, err := n.under(ctx)
	d, row := dst.(*rowNode[T])
	same := row && d.row == n.row && d.qid() == n.qid()
	switch {
	case err != nil:
		return n.fail(err)
	case u == nil:
	case n.fixed(name) != nil && same && n.admitted(newname):
		return n.fail(n.backup(ctx, u, name, newname))
	case n.fixed(name) != nil:
	case row && d.fixed(newname) != nil && same:
		return n.fail(n.replace(ctx, u, name, newname))
	case row && !d.admitted(newname):
	default:
		return n.fail(u.Rename(ctx, name, Inner(ctx, dst), newname))
	}
	return n.fail(fmt.Errorf("%w: %s cannot be renamed to %s", ErrNotPermitted, name, newname))
}

func (n *rowNode[T]) Symlink(ctx context.Context, name, target string) (Node, error) {
	if u, err := n.under(ctx); u != nil && err == nil && n.admitted(name) {
		made, err := u.Symlink(ctx, name, target)
		return made, n.fail(err)
	}
	return nil, n.fail(fmt.Errorf("%w: no link can be made in %s", ErrNotPermitted, n.name))
}

func (n *rowNode[T]) Link(ctx context.Context, name string, target Node) (Node, error) {
	if u, err := n.under(ctx); u != nil && err == nil && n.admitted(name) {
		made, err := u.Link(ctx, name, target)
		return made, n.fail(err)
	}
	return nil, n.fail(fmt.Errorf("%w: no link can be made in %s", ErrNotPermitted, n.name))
}
