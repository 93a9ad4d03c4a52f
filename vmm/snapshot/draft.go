package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"hutch/fs"
	"hutch/vmm/image/layer"
	"hutch/vmm/replica"
)

// A Draft is a snapshot in the making.
type Draft struct {
	s     *Store
	name  string
	dir   string
	parts map[string]*replica.Replica
	cost  replica.Cost
	began time.Time
}

// Begin begins a snapshot called name of the folders, each by the name of
// the part that it is.
func (s *Store) Begin(name string, folders map[string]string) (*Draft, error) {
	if _, err := os.Lstat(s.Dir(name)); err == nil {
		return nil, exist(name)
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.dir, ".new-")
	if err != nil {
		return nil, err
	}
	d := &Draft{s: s, name: name, dir: dir, parts: make(map[string]*replica.Replica), began: time.Now()}
	for part, from := range folders {
		d.parts[part] = replica.New(from, filepath.Join(dir, part))
		s.since(part, d.parts[part])
	}
	return d, nil
}

func exist(name string) error { return fmt.Errorf("%w: snapshot %q", fs.ErrExist, name) }

// Ahead copies what is there now, of folders that may be in use.
func (d *Draft) Ahead(ctx context.Context) error {
	for _, r := range d.parts {
		if err := r.Ahead(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Copy copies what has changed since, of folders that nobody writes to.
func (d *Draft) Copy(ctx context.Context) error {
	d.cost = replica.Cost{}
	for _, r := range d.parts {
		c, err := r.Copy(ctx)
		if err != nil {
			return err
		}
		d.cost.Add(c)
	}
	return nil
}

// Commit gives the snapshot its name, when it is on the disk. What i says
// goes into its record, and the cost with it.
func (d *Draft) Commit(i Info) error {
	i.Cost = d.cost
	i.Cost.Time = time.Since(d.began) // with what was waited for, and the guest's standing still
	data, err := json.Marshal(i)
	if err != nil {
		return err
	}
	for part, r := range d.parts {
		if err := remember(filepath.Join(d.dir, part+seen), r.Record()); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(d.dir, record), append(data, '\n'), 0o600); err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(d.dir, 0o755), layer.Settle(d.dir)); err != nil {
		return err
	}
	err = os.Rename(d.dir, d.s.Dir(d.name))
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
		return exist(d.name)
	}
	return err
}

// Abandon removes what was made of a snapshot that has not got its name.
func (d *Draft) Abandon() error { return replica.Remove(d.dir) }
