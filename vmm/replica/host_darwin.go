package replica

import (
	"os"

	"golang.org/x/sys/unix"
)

// search opens a folder only to go on from there.
const search = unix.O_SEARCH

// share makes the file called name in the folder dir of the blocks of in.
func share(in *os.File, dir int, name string) (*os.File, error) {
	if err := unix.Fclonefileat(int(in.Fd()), dir, name, 0); err != nil {
		return nil, err
	}
	if err := unix.Fchmodat(dir, name, 0o600, 0); err != nil {
		return nil, err
	}
	fd, err := unix.Openat(dir, name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func transfer(_, _ *os.File, _, _ int64) (int64, error) { return 0, unix.ENOSYS }

func clean(f *os.File) { f.Sync() }

func honest(int) bool { return true }

// special makes nothing: pipes and devices can only be made by path here, and
// guests of macOS make none in a shared folder.
func special(int, string, *unix.Stat_t) error { return unix.EOPNOTSUPP }

// attrsAt returns no extended attributes: links have none worth keeping.
func attrsAt(int, string) attrs {
	return attrs{list: func([]byte) (int, error) { return 0, nil }}
}

// Unlock opens nothing: a file can only be given another mode by path here.
func Unlock(int, string, *unix.Stat_t, int) (int, func(), error) { return -1, nil, unix.EACCES }
