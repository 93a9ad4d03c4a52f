package guest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"hutch/fs"
)

const maxErrorText = 1000

// kinds are the errors that a guest can have.
var kinds = []error{
	fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrNotPermitted, fs.ErrInvalid, fs.ErrBusy,
	fs.ErrNotDir, fs.ErrIsDir, fs.ErrNotEmpty, fs.ErrTimedOut, fs.ErrInterrupted, fs.ErrAgain,
	fs.ErrPipe, fs.ErrReadOnly, fs.ErrNoSpace, fs.ErrTooLong, fs.ErrArgs, fs.ErrStale, fs.ErrNoLocks, fs.ErrUnsupported, fs.ErrIO,
}

// kindOf returns the kind of error that a number stands for, or the system's
// own error.
func kindOf(n syscall.Errno) error {
	for _, k := range kinds {
		if fs.Errno(k) == n {
			return k
		}
	}
	return n
}

// explain gives err, which came as a number, the text that the guest keeps
// of its last error, if that is of the same kind.
func explain(err error, text string) error {
	text, _, _ = strings.Cut(text, "\n")
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > maxErrorText {
		text = text[:maxErrorText] + "…"
	}
	if detail, ok := strings.CutPrefix(text, err.Error()+": "); ok {
		return fmt.Errorf("%w: %s", err, detail)
	}
	return err
}

// explain gives the error of a request the text that the guest keeps at path.
func (g *Guest) explain(ctx context.Context, err error, path ...string) error {
	if !slices.Contains(kinds, err) {
		return err
	}
	text, terr := g.text(ctx, path)
	if terr != nil {
		return err
	}
	return explain(err, text)
}

// checkName refuses names that are none, wherever they come from.
func checkName(name string) error {
	switch {
	case name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00"):
		return fmt.Errorf("%w: name %q", fs.ErrInvalid, name)
	case len(name) > 255:
		return fmt.Errorf("%w: %d bytes", fs.ErrTooLong, len(name))
	}
	return nil
}
