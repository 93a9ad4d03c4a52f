package client

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/hugelgupf/p9/linux"

	"hutch/fs"
	"hutch/fs/ninep/errno"
)

// An Error is a failed call on a path. It wraps the kind of error of package
// node and the number of this system, so that fs.Errno, fs.Text and
// errors.Is know it.
type Error struct {
	Op   string
	Path string
	kind error
	also error // the number, or what happened on this side; may be nil
}

func (e *Error) Error() string {
	s := e.Op + " " + e.Path + ": " + e.kind.Error()
	if _, num := e.also.(syscall.Errno); num || e.also == nil {
		return s // the number says the same
	}
	return s + ": " + e.also.Error()
}

// Unwrap returns the errors that e is.
func (e *Error) Unwrap() []error {
	if e.also == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.also}
}

// kinds has node's kinds of errors by number.
var kinds = func() map[syscall.Errno]error {
	m := map[syscall.Errno]error{}
	for _, k := range []error{
		fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrNotPermitted, fs.ErrInvalid,
		fs.ErrBusy, fs.ErrNotDir, fs.ErrIsDir, fs.ErrNotEmpty, fs.ErrTimedOut,
		fs.ErrInterrupted, fs.ErrAgain, fs.ErrPipe, fs.ErrReadOnly, fs.ErrNoSpace,
		fs.ErrTooLong, fs.ErrArgs, fs.ErrStale, fs.ErrNoLocks, fs.ErrUnsupported, fs.ErrIO,
	} {
		m[fs.Errno(k)] = k
	}
	return m
}()

// ErrLost is why calls fail once the service is gone.
var ErrLost = errors.New("connection lost")

// errorOf makes an Error of what the library returned.
func errorOf(op, path string, err error) error {
	var num linux.Errno
	var ours *Error
	switch {
	case err == nil || err == io.EOF:
		return err
	case errors.As(err, &ours):
		return err
	case errors.As(err, &num):
		return numbered(op, path, errno.Local(uint32(num)))
	case errors.Is(err, os.ErrClosed):
		return &Error{Op: op, Path: path, kind: fs.ErrInterrupted, also: os.ErrClosed}
	case fs.Errno(err) != syscall.EIO:
		return &Error{Op: op, Path: path, kind: err}
	}
	return &Error{Op: op, Path: path, kind: fs.ErrIO, also: fmt.Errorf("%w: %w", ErrLost, err)}
}

func numbered(op, path string, num syscall.Errno) error {
	kind, ok := kinds[num]
	if !ok {
		return &Error{Op: op, Path: path, kind: num}
	}
	return &Error{Op: op, Path: path, kind: kind, also: num}
}
