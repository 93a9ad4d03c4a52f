package snapshot

import (
	"context"
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
	replica.Set
	s     *Store
	name  string
	dir   string
	cost  replica.Cost
	began time.Time
}

// Begin begins a snapshot called name of the folders called parts in from.
func (s *Store) Begin(name, from string, parts ...string) (*Draft, error) {
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
	d := &Draft{Set: replica.NewSet(from, dir, parts...), s: s, name: name, dir: dir, began: time.Now()}
	// Should that be dropped meanwhile, files are copied.
	if list, err := s.List(); err == nil && len(list) > 0 {
		for part, r := range d.Set {
			r.Since(filepath.Join(s.Dir(list[len(list)-1].Name), part))
		}
	}
	return d, nil
}

func exist(name string) error { return fmt.Errorf("%w: snapshot %q", fs.ErrExist, name) }

// Copy copies what has changed since Ahead, of folders that nobody writes to.
func (d *Draft) Copy(ctx context.Context) (err error) {
	d.cost, err = d.Set.Copy(ctx)
	return err
}

// Commit gives the snapshot its name, when it is on the disk. What i says
// goes into its record, and the cost with it.
func (d *Draft) Commit(i Info) error {
	i.Cost = d.cost
	i.Cost.Time = time.Since(d.began) // with what was waited for, and the guest's standing still
	for _, r := range d.Set {
		if err := r.Remember(); err != nil {
			return err
		}
	}
	err := fs.WriteJSON(filepath.Join(d.dir, record), i, false)
	if err == nil {
		err = errors.Join(os.Chmod(d.dir, 0o755), layer.Settle(d.dir))
	}
	if err != nil {
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
