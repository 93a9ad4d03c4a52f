package fs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// An error's text starts with the text of its kind, then ": " and what went
// wrong: fmt.Errorf("%w: vm %q is running: stop it first", ErrBusy, name).
// 9P2000 carries the text; 9P2000.L and FUSE carry the kind's errno. The
// texts are chosen so that clients which guess an errno from the text of
// 9P2000 (Linux net/9p/error.c, plan9port 9pfuse) guess the same one.
type kind struct {
	text  string
	errno syscall.Errno
}

func (k *kind) Error() string { return k.text }

// kinds has all of them, by their numbers.
var kinds = map[syscall.Errno]*kind{}

func newKind(text string, errno syscall.Errno) *kind {
	kinds[errno] = &kind{text, errno}
	return kinds[errno]
}

// Kind returns the kind of error that a number stands for, or the system's own
// error.
func Kind(n syscall.Errno) error {
	if k := kinds[n]; k != nil {
		return k
	}
	return n
}

// The kinds of errors.
var (
	// ErrNotExist is returned when a name leads nowhere.
	ErrNotExist = newKind("file does not exist", syscall.ENOENT)
	// ErrExist is returned when something is to be made that is there already.
	ErrExist = newKind("file already exists", syscall.EEXIST)
	// ErrPermission is returned when a file is opened for what its mode does not allow, and when a policy refuses.
	ErrPermission = newKind("permission denied", syscall.EACCES)
	// ErrNotPermitted is returned for operations that made-up files do not have.
	ErrNotPermitted = newKind("operation not permitted", syscall.EPERM)
	// ErrInvalid is returned for input that does not parse or makes no sense here.
	ErrInvalid = newKind("invalid argument", syscall.EINVAL)
	// ErrBusy is returned when an object's state does not allow the operation now.
	ErrBusy = newKind("file in use", syscall.EBUSY)
	// ErrNotDir is returned when a file is used as a directory.
	ErrNotDir = newKind("not a directory", syscall.ENOTDIR)
	// ErrIsDir is returned when a directory is used as a file.
	ErrIsDir = newKind("is a directory", syscall.EISDIR)
	// ErrNotEmpty is returned when a directory with entries is removed.
	ErrNotEmpty = newKind("directory not empty", syscall.ENOTEMPTY)
	// ErrTimedOut is returned when a guest or a server did not answer in time.
	ErrTimedOut = newKind("timed out", syscall.ETIMEDOUT)
	// ErrRefused is returned when nobody listens on a port.
	ErrRefused = newKind("connection refused", syscall.ECONNREFUSED)
	// ErrInterrupted is returned when the caller gave up waiting.
	ErrInterrupted = newKind("interrupted", syscall.EINTR)
	// ErrAgain is returned by a read that would block, of a file opened with O_NONBLOCK.
	ErrAgain = newKind("resource temporarily unavailable", syscall.EAGAIN)
	// ErrPipe is returned when nobody will ever read what is written.
	ErrPipe = newKind("broken pipe", syscall.EPIPE)
	// ErrReadOnly is returned when something below a read-only directory is to change.
	ErrReadOnly = newKind("read-only file system", syscall.EROFS)
	// ErrNoSpace is returned when a disk or a limit is full.
	ErrNoSpace = newKind("no space left on device", syscall.ENOSPC)
	// ErrTooLong is returned for names and paths over their limit.
	ErrTooLong = newKind("file name too long", syscall.ENAMETOOLONG)
	// ErrTooLarge is returned for files, lists and messages over their limit.
	ErrTooLarge = newKind("file too large", syscall.EFBIG)
	// ErrArgs is returned for words that are more than a program can be started with.
	ErrArgs = newKind("argument list too long", syscall.E2BIG)
	// ErrStale is returned when the machine that had a file has ended: it may be found anew.
	ErrStale = newKind("stale file handle", syscall.ESTALE)
	// ErrNoLocks is returned when there are as many locks as there may be.
	ErrNoLocks = newKind("no locks available", syscall.ENOLCK)
	// ErrUnsupported is returned for what this machine or this driver cannot do.
	ErrUnsupported = newKind("not supported", syscall.EOPNOTSUPP)
	// ErrIO is returned when the machinery below failed; the text says where.
	ErrIO = newKind("i/o error", syscall.EIO)
)

// others maps the errors of the standard library to a kind.
var others = []struct {
	err  error
	kind *kind
}{
	{fs.ErrNotExist, ErrNotExist},
	{fs.ErrExist, ErrExist},
	{fs.ErrPermission, ErrPermission},
	{fs.ErrInvalid, ErrInvalid},
	{context.Canceled, ErrInterrupted},
	{context.DeadlineExceeded, ErrTimedOut},
	{os.ErrDeadlineExceeded, ErrTimedOut},
}

// Errno returns the errno of err: its kind's, or the system's own, or EIO.
func Errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	var k *kind
	if errors.As(err, &k) {
		return k.errno
	}
	var n syscall.Errno
	if errors.As(err, &n) {
		return n
	}
	for _, o := range others {
		if errors.Is(err, o.err) {
			return o.kind.errno
		}
	}
	return syscall.EIO
}

// Is says whether err is of a kind. Unlike errors.Is it takes the errors of the
// system and of the standard library for those of the kind that they mean.
func Is(err, kind error) bool { return Errno(err) == Errno(kind) }

// Text returns the text of err as 9P2000 and the err files carry it: starting
// with its kind's text, on one line that a terminal shows as it is.
func Text(err error) string {
	if err == nil {
		return ""
	}
	switch e := err.(type) { // in which the system's name of the operation is no news
	case *os.PathError:
		if n, ok := e.Err.(syscall.Errno); ok {
			return oneLine(Kind(n).Error() + ": " + e.Path)
		}
	case *os.LinkError:
		if n, ok := e.Err.(syscall.Errno); ok {
			return oneLine(Kind(n).Error() + ": " + e.Old + " to " + e.New)
		}
	}
	var k *kind
	if errors.As(err, &k) {
		return oneLine(leadWith(k.text, err.Error()))
	}
	for _, o := range others {
		if errors.Is(err, o.err) {
			return oneLine(leadWith(o.kind.text, err.Error()))
		}
	}
	var n syscall.Errno
	if errors.As(err, &n) {
		return oneLine(leadWith(n.Error(), err.Error()))
	}
	return oneLine(leadWith(ErrIO.text, err.Error()))
}
