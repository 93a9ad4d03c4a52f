package guest

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"

	"hutch/fs"
)

// CheckProgram says why no guest could run the program at path: it must be
// there, for Linux, and static, as an image need not have a C library. Errors
// call it name.
func CheckProgram(name, path string) error {
	f, err := elf.Open(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: no %s program at %s", fs.ErrNotExist, name, path)
	case err != nil:
		return fmt.Errorf("%w: %s program %s: %w", fs.ErrUnsupported, name, path, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%w: %s program %s is not static: build it with CGO_ENABLED=0", fs.ErrUnsupported, name, path)
		}
	}
	return nil
}
