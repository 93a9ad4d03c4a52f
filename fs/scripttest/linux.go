package scripttest

import (
	"context"
	"os"
	"path"

	"hutch/fs/ninep/client"
	"hutch/fs/ninep/wire"
)

// linux is the tree over 9P2000.L. What is to be cancelled has a context of
// its own.
type linux struct{ c *client.Conn }

var background = context.Background()

// Linux returns the tree over 9P2000.L.
func Linux(c *client.Conn) Frontend { return linux{c} }

func (l linux) can(what string) bool { return what != "text" }

func (l linux) open(name string, flags int) (file, error) {
	if flags&os.O_CREATE == 0 {
		f, err := l.c.Open(background, wire.Path(name), flags)
		return linuxFile{f}, err
	}
	f, err := l.c.Walk(background, wire.Path(path.Dir(name)))
	if err != nil {
		return nil, err
	}
	if err := f.Create(background, path.Base(name), flags, 0o644); err != nil {
		f.Clunk()
		return nil, err
	}
	return linuxFile{f}, nil
}

func (l linux) in(name string, do func(dir *client.Fid) error) error {
	return l.c.At(background, wire.Path(path.Dir(name)), do)
}

func (l linux) mkdir(name string) error {
	return l.in(name, func(dir *client.Fid) error { return dir.Mkdir(background, path.Base(name), 0o755) })
}

func (l linux) remove(name string, isDir bool) error {
	return l.in(name, func(dir *client.Fid) error { return dir.Remove(background, path.Base(name), isDir) })
}

func (l linux) rename(from, to string) error {
	return l.in(from, func(dir *client.Fid) error {
		return l.in(to, func(todir *client.Fid) error {
			return dir.Rename(background, path.Base(from), todir, path.Base(to))
		})
	})
}

func (l linux) list(name string) ([]string, error) {
	entries, err := l.c.List(background, wire.Path(name))
	return namesOf(entries), err
}

func (l linux) stat(name string) (bool, uint64, error) {
	st, err := l.c.Stat(background, wire.Path(name))
	return st.Mode.IsDir(), st.Size, err
}

type linuxFile struct{ *client.Fid }

func (f linuxFile) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	return f.Fid.ReadAt(ctx, client.Stream, p, off)
}

func (f linuxFile) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	return f.Fid.Write(ctx, client.Stream, p, off)
}

func (f linuxFile) Close() error { return f.Fid.Close(background) }
