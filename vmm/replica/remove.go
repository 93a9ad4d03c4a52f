package replica

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// removeTries is how often Remove begins anew where something still writes
// into what it removes.
const removeTries = 100

// Remove removes dir with all below it, also folders that their owner may
// not read, and files made there meanwhile.
func Remove(dir string) error {
	err := os.RemoveAll(dir)
	for try := 1; errors.Is(err, syscall.ENOTEMPTY) && try < removeTries; try++ {
		err = os.RemoveAll(dir)
	}
	if err == nil || os.Getuid() == 0 {
		return err
	}
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			os.Chmod(path, 0o700) // before WalkDir reads it
		}
		return nil
	})
	return os.RemoveAll(dir)
}
