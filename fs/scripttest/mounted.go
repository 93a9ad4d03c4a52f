package scripttest

import (
	"context"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"hutch/fs"
)

type mounted struct{ dir string }

// Mounted returns the tree on a FUSE mount of another process.
func Mounted(dir string) Frontend { return mounted{dir} }

func (m mounted) can(what string) bool { return what != "text" && what != "cancel" }

func (m mounted) path(name string) string { return filepath.Join(m.dir, name) }

func (m mounted) open(name string, flags int) (file, error) {
	f, err := os.OpenFile(m.path(name), flags, 0o644)
	return mountedFile{f}, err
}

func (m mounted) mkdir(name string) error { return os.Mkdir(m.path(name), 0o755) }
func (m mounted) remove(name string, dir bool) error {
	if st, err := os.Lstat(m.path(name)); err == nil && st.IsDir() != dir {
		return fs.ErrIsDir
	}
	return os.Remove(m.path(name))
}
func (m mounted) rename(from, to string) error { return os.Rename(m.path(from), m.path(to)) }

func (m mounted) list(name string) ([]string, error) {
	entries, err := os.ReadDir(m.path(name))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (m mounted) stat(name string) (bool, uint64, error) {
	st, err := os.Stat(m.path(name))
	if err != nil {
		return false, 0, err
	}
	return st.IsDir(), uint64(st.Size()), nil
}

// mountedFile is an open file of the mount. It reads once for each ReadAt:
// os.File would go on until its buffer is full.
type mountedFile struct{ *os.File }

// ReadAt cannot be called back as a system call; a reader that must be is a
// process of its own and gets a signal, as in the tests of fs/fuse.
func (f mountedFile) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	type result struct {
		n   int
		err error
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0) // f may be closed while the read is left to itself
	if err != nil {
		return 0, err
	}
	done := make(chan result, 1)
	q := make([]byte, len(p))
	go func() {
		defer syscall.Close(fd)
		n, err := syscall.Pread(fd, q, off)
		for err == syscall.EINTR {
			n, err = syscall.Pread(fd, q, off)
		}
		for err == syscall.ESPIPE { // a stream that is open for both has no places
			if n, err = syscall.Read(fd, q); err == syscall.EINTR {
				err = syscall.ESPIPE
			}
		}
		done <- result{max(n, 0), err}
	}()
	select {
	case r := <-done:
		return copy(p, q[:r.n]), r.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (f mountedFile) WriteAt(_ context.Context, p []byte, _ int64) (int, error) { return f.Write(p) }
func (f mountedFile) Sync(context.Context) error                                { return f.File.Sync() }
