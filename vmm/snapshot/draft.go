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
	point *Point // that it is of; nil: none
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

// Still copies what has changed since Ahead, of folders that may be in use, and
// says whether that was nothing. Then the snapshot is complete.
func (d *Draft) Still(ctx context.Context) (still bool, err error) {
	d.cost, still, err = d.Set.Still(ctx)
	return still, err
}

// Copy copies what has changed since Ahead, of folders that nobody writes to.
func (d *Draft) Copy(ctx context.Context) (err error) {
	d.cost, err = d.Set.Copy(ctx)
	return err
}

// At says which point the snapshot is of, and that it has nothing of the part
// empty, whose folder is there all the same.
func (d *Draft) At(p Point, empty string) error {
	d.point = &p
	return os.Mkdir(filepath.Join(d.dir, empty), 0o755)
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
	if d.point != nil {
		if err := d.point.note(d.dir); err != nil {
			return err
		}
	}
	err := errors.Join(fs.WriteJSON(filepath.Join(d.dir, record), i, false), os.Chmod(d.dir, 0o755))
	if err == nil && i.Boot == "" {
		err = layer.Settle(d.dir)
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
