package pack

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

func listAttributes(f *os.File) []string {
	buf := make([]byte, maxAttr)
	n, err := unix.Flistxattr(int(f.Fd()), buf)
	if err != nil || n == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00")
}

func getAttribute(f *os.File, name string) (string, bool) {
	buf := make([]byte, maxAttr)
	n, err := unix.Fgetxattr(int(f.Fd()), name, buf)
	if err != nil {
		return "", false
	}
	return string(buf[:n]), true
}

// setAttribute sets an attribute. An overlay's note that only the superuser of
// the machine may write is one for users elsewhere.
func setAttribute(f *os.File, name, value string) error {
	err := unix.Fsetxattr(int(f.Fd()), name, []byte(value), 0)
	if note, ok := strings.CutPrefix(name, overlayRoot); ok && errors.Is(err, unix.EPERM) {
		err = unix.Fsetxattr(int(f.Fd()), overlayUser+note, []byte(value), 0)
	}
	if errors.Is(err, unix.EOPNOTSUPP) && strings.HasPrefix(name, "user.") {
		return nil // the file system has none
	}
	if name == capability && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP)) {
		return nil
	}
	return err
}

func mkfifo(dir int, name string) error { return unix.Mkfifoat(dir, name, 0o600) }

// whiteout makes what an overlay takes for the mark of a file that is gone.
func whiteout(dir int, name string) error { return unix.Mknodat(dir, name, unix.S_IFCHR, 0) }
