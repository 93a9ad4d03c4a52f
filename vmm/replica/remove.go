package replica

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Remove removes dir with all below it, also folders that their owner may
// not read.
func Remove(dir string) error {
	if err := os.RemoveAll(dir); err == nil || os.Getuid() == 0 {
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
