// Package disk measures what folders hold that a guest writes to.
package disk

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// least is what a file counts at least, in bytes: it takes an inode and a
// name. So a limit is one of the number of files too, and of the time that
// measuring takes.
const least = 1 << 10

// Used returns the bytes that the files in dirs take on the disk, each counted
// as 1 KiB at least, and files with several names once. It stops to count when
// there are more than enough, or ctx ends. What cannot be read, and what goes
// meanwhile, is left out. No symbolic link leads out of a folder, also when a
// guest changes it at the same time.
func Used(ctx context.Context, enough int64, dirs ...string) (int64, error) {
	var sum int64
	for _, dir := range dirs {
		n, err := used(ctx, enough-sum, dir)
		if sum += n; err != nil {
			return sum, err
		}
		if sum > enough {
			break
		}
	}
	return sum, nil
}

// A walk sums up what is below a folder.
type walk struct {
	root   *os.Root
	enough int64
	sum    int64
	linked map[uint64]bool // files with several names that are counted
	below  []string        // folders that are still to be looked at
}

func used(ctx context.Context, enough int64, dir string) (int64, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	w := &walk{root: root, enough: enough, linked: make(map[uint64]bool), below: []string{"."}}
	for len(w.below) > 0 && w.sum <= enough {
		last := len(w.below) - 1
		name := w.below[last]
		w.below = w.below[:last]
		w.dir(ctx, name)
		if err := ctx.Err(); err != nil {
			return w.sum, err
		}
	}
	return w.sum, nil
}

// dir counts what is in the folder called name, some of it at a time: there
// may be millions.
func (w *walk) dir(ctx context.Context, name string) {
	f, err := w.root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	for w.sum <= w.enough && ctx.Err() == nil {
		list, err := f.ReadDir(256)
		for _, d := range list {
			if w.count(name, d); w.sum > w.enough {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (w *walk) count(dir string, d fs.DirEntry) {
	info, err := d.Info()
	if err != nil {
		return
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return
	case d.IsDir():
		w.below = append(w.below, filepath.Join(dir, d.Name()))
	case st.Nlink > 1:
		if w.linked[uint64(st.Ino)] {
			return
		}
		w.linked[uint64(st.Ino)] = true
	}
	w.sum += max(st.Blocks*512, least)
}

// Filled returns the bytes that are used of the file system of dir. It tells
// whether a new measurement may give another result.
func Filled(dir string) int64 {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0
	}
	return int64(st.Blocks-st.Bfree) * int64(st.Bsize)
}
