package fstest

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"

	"hutch/fs/node"
)

func (s *script) want(w []string) error {
	if s.got != w[0] {
		return fmt.Errorf("got %q", s.got)
	}
	return nil
}

func (s *script) match(re string, want bool) error {
	if regexp.MustCompile("(?m)"+re).MatchString(s.got) != want {
		return fmt.Errorf("got %q", s.got)
	}
	return nil
}

// wantErr checks the last error: its text where the frontend carries it, its
// number where not, and then the text in the err file of the service.
func (s *script) wantErr(w []string) error {
	text := node.Text(s.err)
	if !s.f.hasText() {
		kind := kindOf(w[0])
		if got := node.Errno(s.err); got != node.Errno(kind) {
			return fmt.Errorf("errno %v (%v)", got, s.err)
		}
		if w[0] == kind.Error() {
			return nil // a walk that fails is not told in err: every look for a name would be
		}
		f, err := s.f.open("err", os.O_RDONLY)
		if err != nil {
			return err
		}
		defer f.close()
		if text, err = readTo(context.Background(), f, 0, never); err != nil {
			return err
		}
	}
	if !strings.Contains(text, w[0]) {
		return fmt.Errorf("error is %q", text)
	}
	return nil
}

// kindOf returns the kind that an error text starts with.
func kindOf(text string) error {
	for _, k := range []error{
		node.ErrNotExist, node.ErrExist, node.ErrPermission, node.ErrNotPermitted, node.ErrInvalid, node.ErrBusy,
		node.ErrNotDir, node.ErrIsDir, node.ErrNotEmpty, node.ErrTimedOut, node.ErrAgain, node.ErrPipe,
		node.ErrReadOnly, node.ErrNoSpace, node.ErrTooLong, node.ErrArgs, node.ErrStale, node.ErrNoLocks, node.ErrUnsupported, node.ErrIO,
	} {
		if strings.HasPrefix(text, k.Error()) {
			return k
		}
	}
	panic("no kind of error begins " + text)
}
