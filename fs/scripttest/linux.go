package scripttest

import (
	"context"

	"hutch/fs/ninep/client"
)

type linux struct{ c *client.Conn }

// Linux returns the tree over 9P2000.L.
func Linux(c *client.Conn) Frontend { return linux{c} }

func (l linux) hasText() bool   { return false }
func (l linux) can(string) bool { return true }

func (l linux) open(name string, flags int) (file, error) {
	f, err := l.c.Open(name, flags)
	if err != nil {
		return nil, err
	}
	return linuxFile{f}, nil
}

func (l linux) create(name string, flags int) (file, error) {
	f, err := l.c.Create(name, flags, 0o644)
	if err != nil {
		return nil, err
	}
	return linuxFile{f}, nil
}

func (l linux) mkdir(name string) error          { return l.c.Mkdir(name, 0o755) }
func (l linux) remove(name string, _ bool) error { return l.c.Remove(name) }
func (l linux) rename(from, to string) error     { return l.c.Rename(from, to) }
func (l linux) list(name string) ([]string, error) {
	entries, err := l.c.ReadDir(name)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names, err
}

func (l linux) stat(name string) (bool, uint64, error) {
	st, err := l.c.Stat(name)
	return st.Mode.IsDir(), st.Size, err
}

type linuxFile struct{ f *client.File }

// readAt ends with ctx by a clunk of the file, which the server answers by
// ending its reads.
func (f linuxFile) readAt(ctx context.Context, p []byte, off int64) (int, error) {
	stop := context.AfterFunc(ctx, func() { f.f.Close() })
	defer stop()
	return f.f.ReadAt(p, off)
}

func (f linuxFile) writeAt(p []byte, off int64) error {
	_, err := f.f.WriteAt(p, off)
	return err
}

func (f linuxFile) close() error { return f.f.Close() }
