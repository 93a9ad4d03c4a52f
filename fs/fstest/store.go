package fstest

import (
	"context"
	"os"
	"path/filepath"

	"hutch/fs"
)

// A stored is a file of the folder behind store, whose open handles are counted.
// It shows itself as nothing but a Node: a frontend is to serve it by that.
type stored struct {
	fs.Node
	t *Tree
}

func (s stored) of(n fs.Node, err error) (fs.Node, error) {
	if err != nil {
		return nil, err
	}
	return stored{n, s.t}, nil
}

func (s stored) Walk(ctx context.Context, name string) (fs.Node, error) {
	return s.of(s.Node.Walk(ctx, name))
}

func (s stored) Open(ctx context.Context, flags int) (fs.Handle, error) {
	h, err := s.Node.Open(ctx, flags)
	if err != nil {
		return nil, err
	}
	return s.t.opened(h), nil
}

func (s stored) Create(ctx context.Context, name string, flags int, perm os.FileMode) (fs.Node, fs.Handle, error) {
	n, h, err := s.Node.Create(ctx, name, flags, perm)
	if err != nil {
		return nil, nil, err
	}
	return stored{n, s.t}, s.t.opened(h), nil
}

func (s stored) Mkdir(ctx context.Context, name string, perm os.FileMode) (fs.Node, error) {
	return s.of(s.Node.Mkdir(ctx, name, perm))
}

func (s stored) Symlink(ctx context.Context, name, target string) (fs.Node, error) {
	return s.of(s.Node.Symlink(ctx, name, target))
}

func (s stored) Link(ctx context.Context, name string, target fs.Node) (fs.Node, error) {
	to, ok := target.(stored)
	if !ok {
		return nil, fs.ErrNotPermitted
	}
	return s.of(s.Node.Link(ctx, name, to.Node))
}

func (s stored) Rename(ctx context.Context, name string, dst fs.Node, newname string) error {
	to, ok := dst.(stored)
	if !ok {
		return fs.ErrNotPermitted
	}
	return s.Node.Rename(ctx, name, to.Node, newname)
}

// Stored returns the content of the file at name directly below store.
func (t *Tree) Stored(name string) (string, bool) {
	text, err := os.ReadFile(filepath.Join(t.store, name))
	return string(text), err == nil
}
