package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"hutch/aggd/storage"
)

// A local is the workspace's folder as storage.
type local struct{ root *os.Root }

var flagsOf = map[storage.How]int{
	storage.Whatever: os.O_CREATE | os.O_TRUNC,
	storage.New:      os.O_CREATE | os.O_EXCL,
}

func (l *local) Read(_ context.Context, name string, off, n int64) ([]byte, storage.Info, error) {
	f, info, err := openRegular(l.root, name, os.O_RDONLY)
	if err != nil {
		return nil, storage.Info{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, off, n))
	if err != nil {
		return nil, storage.Info{}, at(name, err)
	}
	return data, infoOf(info), nil
}

func (l *local) Write(_ context.Context, name string, data []byte, how storage.How) error {
	if err := mkdirAll(l.root, path.Dir(name)); err != nil {
		return err
	}
	_, err := write(l.root, name, flagsOf[how], data)
	return err
}

func (l *local) Replace(_ context.Context, name string, data []byte, _ storage.Info) error {
	_, err := write(l.root, name, os.O_TRUNC, data)
	return err
}

func (l *local) Stat(_ context.Context, name string) (storage.Info, error) {
	info, err := l.root.Lstat(name)
	if err != nil {
		return storage.Info{}, at(name, err)
	}
	return infoOf(info), nil
}

func infoOf(info fs.FileInfo) storage.Info {
	return storage.Info{Name: info.Name(), Kind: kind(info.Mode()), Size: info.Size(), Time: info.ModTime()}
}

func (l *local) List(_ context.Context, name string, most int) (list []storage.Info, more bool, err error) {
	f, err := openDir(l.root, name)
	if err != nil {
		return nil, false, at(name, err)
	}
	defer f.Close()
	entries, err := f.ReadDir(most + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, at(name, err)
	}
	if more = len(entries) > most; more {
		entries = entries[:most]
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // else it has just gone
			list = append(list, infoOf(info))
		}
	}
	slices.SortFunc(list, func(a, b storage.Info) int { return strings.Compare(a.Name, b.Name) })
	return list, more, nil
}

func (l *local) Remove(_ context.Context, name string) error {
	if err := l.root.Remove(name); err != nil {
		return at(name, err)
	}
	return nil
}
