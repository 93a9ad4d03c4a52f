package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"

	"hutch/fs/sparse"
)

type reverted struct {
	Path     string `json:"path"`
	Snapshot string `json:"snapshot"`
	Action   string `json:"action"` // restored or deleted
}

type revertArgs struct {
	target
	Snapshot string `json:"snapshot"`
}

// snapshotsRevert makes one file what it was in a snapshot: the newest that
// has it, if none is named.
func snapshotsRevert(ctx context.Context, in place, a revertArgs) (*result, error) {
	name := a.Path
	if st, err := in.root.Lstat(name); err == nil && st.IsDir() {
		return nil, at(name, errors.New("is a directory"))
	}
	var err error
	r := reverted{Path: name, Snapshot: a.Snapshot}
	if a.Snapshot != "" {
		r.Action, err = in.snaps.revert(ctx, in.root, name, a.Snapshot)
	} else {
		r.Snapshot, r.Action, err = in.snaps.revertNewest(ctx, in.root, name)
	}
	if err != nil {
		return nil, err
	}
	return &result{Content: []any{text("%s %s as it was in %s", r.Action, r.Path, r.Snapshot)}, Structured: r}, nil
}

// revertNewest restores name from the newest snapshot that has it.
func (s Snapshots) revertNewest(ctx context.Context, root *os.Root, name string) (snapshot, action string, err error) {
	list, err := s.List()
	if err != nil {
		return "", "", err
	}
	for _, i := range slices.Backward(meant(list)) {
		action, err := s.from(i.Name, func(then *os.Root) (string, error) {
			st, err := then.Lstat(name)
			if err != nil {
				return "", nil
			}
			return "restored", restore(ctx, then, root, name, st)
		})
		if action != "" || err != nil {
			return i.Name, action, err
		}
	}
	return "", "", at(name, errors.New("no snapshot has it"))
}

// revert restores name from the snapshot, or deletes it if that has none.
func (s Snapshots) revert(ctx context.Context, root *os.Root, name, snapshot string) (action string, err error) {
	return s.from(snapshot, func(then *os.Root) (string, error) {
		st, err := then.Lstat(name)
		if err == nil {
			return "restored", restore(ctx, then, root, name, st)
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return "", at(name, err)
		}
		if err := root.Remove(name); err != nil {
			return "", at(name, err)
		}
		return "deleted", nil
	})
}

// from does f with the workspace of a snapshot.
func (s Snapshots) from(snapshot string, f func(then *os.Root) (string, error)) (string, error) {
	dir, release, err := s.Hold(snapshot)
	if err != nil {
		return "", err
	}
	defer release()
	then, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("snapshot %q: %w", snapshot, bare(err))
	}
	defer then.Close()
	return f(then)
}

// restore puts what then has at name in the place of what root has.
func restore(ctx context.Context, then, root *os.Root, name string, st fs.FileInfo) error {
	if !st.Mode().IsRegular() && st.Mode().Type() != fs.ModeSymlink {
		return at(name, errors.New("is not a file there"))
	}
	if err := mkdirAll(root, path.Dir(name)); err != nil {
		return err
	}
	tmp := path.Join(path.Dir(name), fmt.Sprintf(".reverting-%d-%s", os.Getpid(), path.Base(name)))
	root.Remove(tmp)
	err := fill(ctx, then, root, name, tmp, st)
	if err == nil {
		err = root.Rename(tmp, name)
	}
	if err != nil {
		root.Remove(tmp)
		return at(name, err)
	}
	return nil
}

// fill makes the file tmp like that of the snapshot.
func fill(ctx context.Context, then, root *os.Root, name, tmp string, st fs.FileInfo) error {
	if st.Mode().Type() == fs.ModeSymlink {
		target, err := then.Readlink(name)
		if err != nil {
			return err
		}
		return root.Symlink(target, tmp)
	}
	in, info, err := openRegular(then, name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = copyData(ctx, in, out, info.Size())
	if s, ok := st.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		err = errors.Join(err, out.Chown(int(s.Uid), int(s.Gid)))
	}
	return errors.Join(err, out.Chmod(st.Mode()), out.Close())
}

// copyAtOnce is how much is copied before the context is looked at again.
const copyAtOnce = 1 << 20

// copyData copies what is in a file of that size, and leaves its holes: they
// may be longer than the disk.
func copyData(ctx context.Context, in, out *os.File, size int64) error {
	x := sparse.Of(in, size)
	for at := int64(0); at < size; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		begin, end := x.From(at)
		at = min(end, begin+copyAtOnce)
		if _, err := io.Copy(io.NewOffsetWriter(out, begin), io.NewSectionReader(in, begin, at-begin)); err != nil {
			return err
		}
	}
	return out.Truncate(size)
}
