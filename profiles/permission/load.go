package permission

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"hutch/fs"
)

// Load returns the built-in profile of a name, or the profile in the file of an
// absolute path. Nothing of a file that is no profile is told.
func Load(nameOrPath string) (*Profile, error) {
	if p := Builtin(nameOrPath); p != nil {
		return p, nil
	}
	if !filepath.IsAbs(nameOrPath) {
		return nil, fmt.Errorf("%w: permission profile %.64q is not %s, not %s and no absolute path of a file", fs.ErrInvalid, nameOrPath, BuiltinNone, BuiltinNetwork)
	}
	text, err := read(nameOrPath)
	if err != nil {
		return nil, fmt.Errorf("permission profile: %w", err)
	}
	p, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", nameOrPath, err)
	}
	return p, nil
}

// read reads the beginning of an ordinary file: more than Parse takes, if there is more.
func read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO has nobody wait
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not an ordinary file", fs.ErrInvalid, path)
	}
	return io.ReadAll(io.LimitReader(f, MaxText+1))
}
