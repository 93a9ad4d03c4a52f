package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	bolterr "go.etcd.io/bbolt/errors"

	"hutch/fs"
)

// ErrCorrupt is returned when the file is not a session database or no longer one.
var ErrCorrupt = fmt.Errorf("%w: session database is damaged", fs.ErrIO)

var errClosed = fmt.Errorf("%w: session database is closed", fs.ErrPipe)

// guard runs f, which touches the mapped file. Damage shows there as a
// panic of bbolt's or as a fault past the end of a truncated file.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", ErrCorrupt, r)
		}
	}()
	return f()
}

func openError(path string, err error) error {
	switch {
	case errors.Is(err, bolterr.ErrTimeout):
		return fmt.Errorf("%w: another process has %s open", fs.ErrBusy, path)
	case errors.Is(err, bolterr.ErrInvalid), errors.Is(err, bolterr.ErrVersionMismatch), errors.Is(err, bolterr.ErrChecksum):
		return fmt.Errorf("%w: %s: %w", ErrCorrupt, path, err)
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return err
	}
	return storeError(err)
}

// storeError gives an error of the file below its kind.
func storeError(err error) error {
	switch {
	case errors.Is(err, fs.ErrIO):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT),
		strings.Contains(err.Error(), syscall.ENOSPC.Error()): // bbolt drops the cause when it cannot grow the file
		return fmt.Errorf("%w: session database", fs.ErrNoSpace)
	case errors.Is(err, bolterr.ErrDatabaseNotOpen):
		return errClosed
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return fmt.Errorf("%w: session database: %w", fs.ErrIO, err)
}

// SetAside renames the file at path, so that Open makes a new one there, and
// returns its new name.
func SetAside(path string) (string, error) {
	stamp := path + ".damaged-" + time.Now().UTC().Format("20060102T150405Z")
	aside := stamp
	for i := 1; ; i++ {
		if _, err := os.Lstat(aside); err != nil {
			return aside, os.Rename(path, aside)
		}
		aside = fmt.Sprintf("%s.%d", stamp, i)
	}
}
