package folder

import (
	"context"
	"fmt"
	"io/fs"
	"os"

	"hutch/fs/node"
)

// still is a file or directory in a folder that is only looked at. It is no
// node.HostDir: the kernel would be given what it can write to.
type still struct{ *file }

func (n still) readOnly() error { return fmt.Errorf("%w: %s", node.ErrReadOnly, n.path) }

// Links are those of the folder itself, for all below it.
func (n still) Links() *node.Links {
	if n.path != "." {
		return nil
	}
	return n.f.Links
}

func (n still) Walk(ctx context.Context, name string) (node.Node, error) {
	c, err := n.file.Walk(ctx, name)
	if err != nil {
		return nil, err
	}
	return still{c.(*file)}, nil
}

func (n still) Open(ctx context.Context, flags int) (node.Handle, error) {
	if flags&(os.O_WRONLY|os.O_RDWR|os.O_TRUNC) != 0 {
		return nil, n.readOnly()
	}
	return n.file.Open(ctx, flags)
}

func (n still) Create(ctx context.Context, name string, flags int, _ fs.FileMode) (node.Node, node.Handle, error) {
	c, err := n.Walk(ctx, name)
	if err != nil || flags&os.O_EXCL != 0 {
		return nil, nil, n.readOnly()
	}
	h, err := c.Open(ctx, flags)
	return c, h, err
}

func (n still) Mkdir(context.Context, string, fs.FileMode) (node.Node, error) {
	return nil, n.readOnly()
}

func (n still) Symlink(context.Context, string, string) (node.Node, error) {
	return nil, n.readOnly()
}

func (n still) Link(context.Context, string, node.Node) (node.Node, error) {
	return nil, n.readOnly()
}

func (n still) Remove(context.Context, string, bool) error              { return n.readOnly() }
func (n still) Rename(context.Context, string, node.Node, string) error { return n.readOnly() }
func (n still) Set(context.Context, node.Change) error                  { return n.readOnly() }
