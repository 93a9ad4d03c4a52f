package scripttest

import (
	"errors"
	"os"

	"hutch/fs"
	"hutch/fs/ninep/wire"
)

type direct struct{ root fs.Node }

// Direct returns the tree without a wire.
func Direct(root fs.Node) Frontend { return direct{root} }

func (d direct) can(string) bool { return true }

func (d direct) walk(names []string) (fs.Node, error) {
	n := d.root
	for _, name := range names {
		next, err := n.Walk(background, name)
		if err != nil {
			return nil, err
		}
		n = next
	}
	return n, nil
}

// in does something in the directory of name, where that has its last element.
func (d direct) in(name string, do func(dir fs.Node, last string) error) error {
	names := wire.Path(name)
	dir, err := d.walk(names[:len(names)-1])
	if err != nil {
		return err
	}
	return do(dir, names[len(names)-1])
}

func (d direct) open(name string, flags int) (file, error) {
	var f directFile
	err := d.in(name, func(dir fs.Node, last string) (err error) {
		if flags&os.O_CREATE != 0 {
			_, f.Handle, err = dir.Create(background, last, flags, 0o644)
			return err
		}
		n, err := dir.Walk(background, last)
		if err == nil {
			f.Handle, err = n.Open(background, flags)
		}
		return err
	})
	return f, err
}

func (d direct) mkdir(name string) error {
	return d.in(name, func(dir fs.Node, last string) error {
		_, err := dir.Mkdir(background, last, 0o755)
		return err
	})
}

func (d direct) remove(name string, isDir bool) error {
	return d.in(name, func(dir fs.Node, last string) error { return dir.Remove(background, last, isDir) })
}

func (d direct) rename(from, to string) error {
	return d.in(from, func(dir fs.Node, last string) error {
		return d.in(to, func(dst fs.Node, newname string) error { return dir.Rename(background, last, dst, newname) })
	})
}

func (d direct) list(name string) ([]string, error) {
	n, err := d.walk(wire.Path(name))
	if err != nil {
		return nil, err
	}
	entries, err := n.List(background)
	return namesOf(entries), err
}

func namesOf(entries []fs.Entry) (names []string) {
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

func (d direct) stat(name string) (bool, uint64, error) {
	n, err := d.walk(wire.Path(name))
	if err != nil {
		return false, 0, err
	}
	st, err := n.Stat(background)
	return st.Mode.IsDir(), st.Size, err
}

// directFile is an open file of the tree, which is flushed as a client's.
type directFile struct{ fs.Handle }

func (f directFile) Close() error {
	return errors.Join(f.Flush(background), f.Handle.Close())
}
