package replica

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// removeLimit is how long Remove begins anew where something still writes into
// what it removes: a process that was killed and is not gone yet.
const removeLimit = 10 * time.Second

// Remove removes dir with all below it, however deep that is, also folders
// that their owner may not read, and files made there meanwhile. Others may remove
// what is in it at the same time.
func Remove(dir string) error {
	parent, err := unix.Open(filepath.Dir(dir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return &os.PathError{Op: "remove", Path: dir, Err: err}
	}
	defer unix.Close(parent)
	for began := time.Now(); ; time.Sleep(time.Millisecond) { // the processor is the writer's to end on
		err := removeAt(parent, filepath.Base(dir))
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) || time.Since(began) > removeLimit:
			return &os.PathError{Op: "remove", Path: dir, Err: err}
		}
	}
}

// Trash moves what is at path into a new folder of dir, whose name begins with
// ".gone-", and returns that, for Remove. So it goes at once. What is not there
// is no error.
func Trash(dir, path string) (string, error) {
	trash, err := os.MkdirTemp(dir, ".gone-")
	if err != nil {
		return "", err
	}
	if err := os.Rename(path, filepath.Join(trash, "it")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		os.Remove(trash)
		return "", err
	}
	return trash, nil
}

// Leftovers returns what in dir was being made or removed when a process was
// killed: what Trash has left, and what has a name that begins with ".new-".
func Leftovers(dir string) []string {
	var left []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".new-") || strings.HasPrefix(e.Name(), ".gone-") {
			left = append(left, filepath.Join(dir, e.Name()))
		}
	}
	return left
}

// removeDepth is how deep a removal goes in. What lies deeper is brought up
// first, beside the first folder: so it takes no more descriptors.
const removeDepth = 50

// removeAt removes the entry called name of the folder dir. One that is not
// there is fine.
func removeAt(dir int, name string) error { return new(removal).remove(dir, name, 0) }

// openBelow opens the folder called name, also one that its owner may not.
func openBelow(dir int, name string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	if !superuser() {
		unix.Fchmodat(dir, name, 0o700, 0) // ours, or it stays as it is
	}
	fd, err := unix.Openat(dir, name, flags, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// A removal removes a folder.
type removal struct {
	top *os.File // the folder itself, once it is open
	n   int      // folders that were brought up
}

// empty removes what is in f, which is so deep in the top folder.
func (r *removal) empty(f *os.File, depth int) error {
	for {
		names, err := f.Readdirnames(256)
		for _, name := range names {
			if err := r.remove(int(f.Fd()), name, depth); err != nil {
				return err
			}
		}
		if len(names) > 0 {
			_, err = f.Seek(0, 0) // what was removed, or came, moved the rest
		}
		if err != nil || len(names) == 0 {
			return ignoreEnd(err)
		}
	}
}

// remove removes an entry of the folder dir, which is so deep in the top one.
func (r *removal) remove(dir int, name string, depth int) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	derr := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	switch {
	case derr == nil || errors.Is(derr, unix.ENOENT):
		return nil
	case errors.Is(derr, unix.ENOTDIR):
		return err
	case depth >= removeDepth:
		return r.bringUp(dir, name)
	}
	below, err := openBelow(dir, name)
	if err != nil {
		return ignoreGone(err)
	}
	defer below.Close()
	if r.top == nil {
		r.top = below
	}
	if err := ignoreGone(r.empty(below, depth+1)); err != nil {
		return err
	}
	return ignoreGone(unix.Unlinkat(dir, name, unix.AT_REMOVEDIR))
}

// bringUp moves the folder called name into the top one, where it is come to
// when that is read again.
func (r *removal) bringUp(dir int, name string) error {
	if !superuser() {
		unix.Fchmodat(dir, name, 0o700, 0)
	}
	for {
		r.n++
		err := unix.Renameat(dir, name, int(r.top.Fd()), fmt.Sprintf(".deep-%d", r.n))
		if !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.ENOTDIR) {
			return ignoreGone(err)
		}
	}
}

func ignoreGone(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
