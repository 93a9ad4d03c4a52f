package scripttest

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"

	"hutch/fs"
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
	text := fs.Text(s.err)
	if !s.f.can("text") {
		kind := kindOf(w[0])
		if got := fs.Errno(s.err); got != fs.Errno(kind) {
			return fmt.Errorf("errno %v (%v)", got, s.err)
		}
		if w[0] == kind.Error() {
			return nil // a walk that fails is not told in err: every look for a name would be
		}
		f, err := s.f.open("err", os.O_RDONLY)
		if err != nil {
			return err
		}
		defer f.Close()
		if text, err = readTo(background, f, 0, never); err != nil {
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
	for n := syscall.Errno(1); n < 1<<8; n++ {
		if k := fs.Kind(n); strings.HasPrefix(text, k.Error()) {
			return k
		}
	}
	panic("no kind of error begins " + text)
}
