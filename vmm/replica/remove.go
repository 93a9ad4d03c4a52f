package replica

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// removeLimit is how long Remove begins anew where something still writes into
// what it removes: a process that was killed and is not gone yet.
const removeLimit = 10 * time.Second

// Remove removes dir with all below it, also folders that their owner may
// not read, and files made there meanwhile.
func Remove(dir string) error {
	err, began := os.RemoveAll(dir), time.Now()
	for errors.Is(err, syscall.ENOTEMPTY) && time.Since(began) < removeLimit {
		time.Sleep(time.Millisecond) // the processor is the writer's to end on
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
