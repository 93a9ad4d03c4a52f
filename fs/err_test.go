package fs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		err   error
		errno syscall.Errno
		text  string
	}{
		{nil, 0, ""},
		{ErrBusy, syscall.EBUSY, "file in use"},
		{fmt.Errorf("%w: vm %q", ErrNotExist, "a"), syscall.ENOENT, `file does not exist: vm "a"`},
		{fmt.Errorf("start a: %w: image b", ErrNotExist), syscall.ENOENT, "file does not exist: start a: image b"},
		{fmt.Errorf("start a: %w", ErrNotExist), syscall.ENOENT, "file does not exist: start a"},
		{fs.ErrExist, syscall.EEXIST, "file already exists"},
		{&os.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT}, syscall.ENOENT, "file does not exist: /x"},
		{&os.PathError{Op: "unlinkat", Path: "d", Err: syscall.ENOTEMPTY}, syscall.ENOTEMPTY, "directory not empty: d"},
		{&os.PathError{Op: "openat", Path: "../x", Err: errors.New("path escapes from parent")}, syscall.EIO, "i/o error: openat ../x: path escapes from parent"},
		{&os.LinkError{Op: "renameat", Old: "a", New: "b", Err: syscall.ENOENT}, syscall.ENOENT, "file does not exist: a to b"},
		{fmt.Errorf("vm a: %w", &os.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT}), syscall.ENOENT, "file does not exist: vm a: open /x: no such file or directory"},
		{context.Canceled, syscall.EINTR, "interrupted: context canceled"},
		{context.DeadlineExceeded, syscall.ETIMEDOUT, "timed out: context deadline exceeded"},
		{syscall.EXDEV, syscall.EXDEV, "invalid cross-device link"},
		{errors.New("what"), syscall.EIO, "i/o error: what"},
		{errors.New("server says: \x1b[31mred\x07\r\nnext \u202e\xff\r\n"), syscall.EIO, "i/o error: server says: ?[31mred??; next ??"},
		{&os.PathError{Op: "open", Path: "/\x1b", Err: syscall.ENOENT}, syscall.ENOENT, "file does not exist: /?"},
		{errors.Join(ErrBusy, errors.New("two")), syscall.EBUSY, "file in use; two"},
	} {
		if got := Errno(tt.err); got != tt.errno {
			t.Errorf("Errno(%v) = %v, want %v", tt.err, got, tt.errno)
		}
		if got := Text(tt.err); got != tt.text {
			t.Errorf("Text(%v) = %q, want %q", tt.err, got, tt.text)
		}
	}
}
