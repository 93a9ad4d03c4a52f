package guest

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"

	"hutch/fs"
)

// CheckProgram says why no guest could run the program at path: it must be
// there, for Linux, and static, as an image need not have a C library.
func CheckProgram(path string) error {
	f, err := elf.Open(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: no guest program at %s", fs.ErrNotExist, path)
	case err != nil:
		return fmt.Errorf("%w: guest program %s: %w", fs.ErrUnsupported, path, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%w: guest program %s is not static: build it with CGO_ENABLED=0", fs.ErrUnsupported, path)
		}
	}
	return nil
}
