package folder

import (
	"context"
	"fmt"
	"os"

	"hutch/fs"
)

// still is a file or directory in a folder that is only looked at. It is no
// fs.HostDir: the kernel would be given what it can write to.
type still struct{ *file }

func (n still) readOnly() error { return fmt.Errorf("%w: %s", fs.ErrReadOnly, n.path) }

// Links are those of the folder itself, for all below it.
func (n still) Links() *fs.Links {
	if n.path != "." {
		return nil
	}
	return n.f.Links
}

func (n still) Walk(ctx context.Context, name string) (fs.Node, error) {
	c, err := n.file.Walk(ctx, name)
	if err != nil {
		return nil, err
	}
	return still{c.(*file)}, nil
}

func (n still) Open(ctx context.Context, flags int) (fs.Handle, error) {
	if flags&(os.O_WRONLY|os.O_RDWR|os.O_TRUNC) != 0 {
		return nil, n.readOnly()
	}
	return n.file.Open(ctx, flags)
}

func (n still) Create(ctx context.Context, name string, flags int, _ os.FileMode) (fs.Node, fs.Handle, error) {
	c, err := n.Walk(ctx, name)
	if err != nil || flags&os.O_EXCL != 0 {
		return nil, nil, n.readOnly()
	}
	h, err := c.Open(ctx, flags)
	return c, h, err
}

func (n still) Mkdir(context.Context, string, os.FileMode) (fs.Node, error) {
	return nil, n.readOnly()
}

func (n still) Symlink(context.Context, string, string) (fs.Node, error) {
	return nil, n.readOnly()
}

func (n still) Link(context.Context, string, fs.Node) (fs.Node, error) {
	return nil, n.readOnly()
}

func (n still) Remove(context.Context, string, bool) error            { return n.readOnly() }
func (n still) Rename(context.Context, string, fs.Node, string) error { return n.readOnly() }
func (n still) Set(context.Context, fs.Change) error                  { return n.readOnly() }
