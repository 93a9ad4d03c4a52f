package share

import (
	"context"
	"fmt"
	"os"

	"hutch/fs"
)

// top is the directory of the folders.
type top struct {
	fs.Refuse
	s *Share
}

func (t top) Stat(context.Context) (fs.Stat, error) {
	return fs.Stat{Name: "/", Mode: os.ModeDir | 0o555, Qid: 1, Nlink: 1}, nil
}

func (t top) Walk(_ context.Context, name string) (fs.Node, error) {
	for i, as := range t.s.list {
		if as.Name == name {
			return t.s.folders[i].Root(), nil
		}
	}
	return nil, fmt.Errorf("%w: %s", fs.ErrNotExist, name)
}

func (t top) List(ctx context.Context) ([]fs.Entry, error) {
	var list []fs.Entry
	for i, as := range t.s.list {
		st, err := t.s.folders[i].Root().Stat(ctx)
		if err != nil {
			return nil, err
		}
		list = append(list, fs.Entry{Name: as.Name, Mode: os.ModeDir, Qid: st.Qid})
	}
	return list, nil
}
