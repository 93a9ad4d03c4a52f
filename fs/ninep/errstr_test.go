package ninep

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"hutch/fs"
	"hutch/fs/ninep/wire"
)

// errstrs is how plan9port's 9pfuse makes an errno of an error's text: the
// first row whose text is in it, in any case.
var errstrs = []struct {
	text  string
	errno syscall.Errno
}{
	{"permitted", syscall.EPERM}, {"permission", syscall.EACCES}, {"access", syscall.EACCES},
	{"exists", syscall.EEXIST}, {"exist", syscall.ENOENT}, {"no such", syscall.ENOENT},
	{"not found", syscall.ENOENT}, {"not implemented", syscall.ENOSYS},
	{"input/output", syscall.EIO}, {"timeout", syscall.ETIMEDOUT}, {"timed out", syscall.ETIMEDOUT},
	{"i/o", syscall.EIO}, {"too long", syscall.E2BIG}, {"interrupt", syscall.EINTR},
	{"bad file", syscall.EBADF}, {" fid ", syscall.EBADF}, {"temporar", syscall.EAGAIN},
	{"memory", syscall.ENOMEM}, {"is a directory", syscall.EISDIR}, {"directory", syscall.ENOTDIR},
	{"argument", syscall.EINVAL}, {"pipe", syscall.EPIPE}, {"in use", syscall.EBUSY},
	{"busy", syscall.EBUSY}, {"illegal", syscall.EINVAL}, {"invalid", syscall.EINVAL},
	{"read-only", syscall.EROFS}, {"stale ", syscall.ESTALE}, {"proto", syscall.EPROTO},
	{"entry", syscall.ENOENT},
}

func errstr(text string) syscall.Errno {
	for _, row := range errstrs {
		if strings.Contains(strings.ToLower(text), row.text) {
			return row.errno
		}
	}
	return syscall.ERANGE
}

// TestErrstr has every kind of error seen by a client of 9P2000 that goes by
// the text, and one of 9P2000.L that goes by the number.
func TestErrstr(t *testing.T) {
	for _, test := range []struct {
		err     error
		classic syscall.Errno // 0: the same as in 9P2000.L
		linux   syscall.Errno
	}{
		{fs.ErrNotExist, 0, syscall.ENOENT},
		{fs.ErrExist, 0, syscall.EEXIST},
		{fs.ErrPermission, 0, syscall.EACCES},
		{fs.ErrNotPermitted, 0, syscall.EPERM},
		{fs.ErrInvalid, 0, syscall.EINVAL},
		{fs.ErrBusy, 0, syscall.EBUSY},
		{fs.ErrNotDir, 0, syscall.ENOTDIR},
		{fs.ErrIsDir, 0, syscall.EISDIR},
		{fs.ErrTimedOut, 0, syscall.ETIMEDOUT},
		{fs.ErrInterrupted, 0, syscall.EINTR},
		{fs.ErrAgain, 0, syscall.EAGAIN},
		{fs.ErrPipe, 0, syscall.EPIPE},
		{fs.ErrReadOnly, 0, syscall.EROFS},
		{fs.ErrIO, 0, syscall.EIO},
		{fs.ErrArgs, 0, syscall.E2BIG},
		{fs.ErrStale, 0, syscall.ESTALE},
		{badFid(7), 0, syscall.EBADF},
		// The table has no row for these.
		{fs.ErrNotEmpty, syscall.ENOTDIR, syscall.ENOTEMPTY},
		{fs.ErrNoSpace, syscall.ERANGE, syscall.ENOSPC},
		{fs.ErrTooLong, syscall.E2BIG, syscall.ENAMETOOLONG},
		{fs.ErrTooLarge, syscall.ERANGE, syscall.EFBIG},
		{fs.ErrNoLocks, syscall.ERANGE, syscall.ENOLCK},
		{fs.ErrUnsupported, syscall.ERANGE, syscall.EOPNOTSUPP},
	} {
		if test.classic == 0 {
			test.classic = test.linux
		}
		for _, err := range []error{test.err, fmt.Errorf("%w: vm dev: 3 of 4", test.err), fmt.Errorf("vm dev: %w", test.err)} {
			_, b := classic.putError(nil, err)
			c := wire.Cutter{B: b}
			if got := errstr(c.Str()); got != test.classic {
				t.Errorf("%v in 9P2000: %v, want %v", err, got, test.classic)
			}
			if _, b := linux.putError(nil, err); syscall.Errno(le.Uint32(b)) != test.linux {
				t.Errorf("%v in 9P2000.L: %d", err, le.Uint32(b))
			}
		}
	}
}
