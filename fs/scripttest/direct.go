package scripttest

import (
	"context"
	"errors"
	"os"
	"path"
	"strings"

	"hutch/fs"
)

type direct struct{ root fs.Node }

// Direct returns the tree without a wire.
func Direct(root fs.Node) Frontend { return direct{root} }

func (d direct) hasText() bool   { return true }
func (d direct) can(string) bool { return true }

func (d direct) walk(names []string) (fs.Node, error) {
	n := d.root
	for _, name := range names {
		next, err := n.Walk(context.Background(), name)
		if err != nil {
			return nil, err
		}
		n = next
	}
	return n, nil
}

// parent returns the directory of name, and its last element.
func (d direct) parent(name string) (fs.Node, string, error) {
	names := elements(name)
	n, err := d.walk(names[:len(names)-1])
	return n, names[len(names)-1], err
}

func (d direct) open(name string, flags int) (file, error) {
	n, err := d.walk(elements(name))
	if err != nil {
		return nil, err
	}
	h, err := n.Open(context.Background(), flags)
	if err != nil {
		return nil, err
	}
	return directFile{h}, nil
}

func (d direct) create(name string, flags int) (file, error) {
	dir, last, err := d.parent(name)
	if err != nil {
		return nil, err
	}
	_, h, err := dir.Create(context.Background(), last, flags|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	return directFile{h}, nil
}

func (d direct) mkdir(name string) error {
	dir, last, err := d.parent(name)
	if err != nil {
		return err
	}
	_, err = dir.Mkdir(context.Background(), last, 0o755)
	return err
}

func (d direct) remove(name string, isDir bool) error {
	dir, last, err := d.parent(name)
	if err != nil {
		return err
	}
	return dir.Remove(context.Background(), last, isDir)
}

func (d direct) rename(from, to string) error {
	dir, last, err := d.parent(from)
	if err != nil {
		return err
	}
	dst, newname, err := d.parent(to)
	if err != nil {
		return err
	}
	return dir.Rename(context.Background(), last, dst, newname)
}

func (d direct) list(name string) ([]string, error) {
	n, err := d.walk(elements(name))
	if err != nil {
		return nil, err
	}
	entries, err := n.List(context.Background())
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names, err
}

func (d direct) stat(name string) (bool, uint64, error) {
	n, err := d.walk(elements(name))
	if err != nil {
		return false, 0, err
	}
	st, err := n.Stat(context.Background())
	return st.Mode.IsDir(), st.Size, err
}

type directFile struct{ fs.Handle }

func (f directFile) readAt(ctx context.Context, p []byte, off int64) (int, error) {
	return f.ReadAt(ctx, p, off)
}

func (f directFile) writeAt(p []byte, off int64) error {
	_, err := f.WriteAt(context.Background(), p, off)
	return err
}

func (f directFile) close() error {
	var err error
	if fl, ok := f.Handle.(fs.Flusher); ok {
		err = fl.Flush(context.Background())
	}
	return errors.Join(err, f.Close())
}

// elements returns the elements of a path.
func elements(name string) []string {
	name = strings.Trim(path.Clean("/"+name), "/")
	if name == "" {
		return nil
	}
	return strings.Split(name, "/")
}
