package fs

import (
	"os"
	"syscall"
	"testing"
)

func TestUnixMode(t *testing.T) {
	for _, c := range []struct {
		mode os.FileMode
		bits uint32
	}{
		{0o644, syscall.S_IFREG | 0o644},
		{0, syscall.S_IFREG},
		{os.ModeDir | 0o755, syscall.S_IFDIR | 0o755},
		{os.ModeDir | os.ModeSticky | 0o777, syscall.S_IFDIR | 0o1777},
		{os.ModeSymlink | 0o777, syscall.S_IFLNK | 0o777},
		{os.ModeNamedPipe | 0o600, syscall.S_IFIFO | 0o600},
		{os.ModeSocket | 0o600, syscall.S_IFSOCK | 0o600},
		{os.ModeDevice | 0o600, syscall.S_IFBLK | 0o600},
		{os.ModeDevice | os.ModeCharDevice | 0o600, syscall.S_IFCHR | 0o600},
		{os.ModeSetuid | os.ModeSetgid | 0o755, syscall.S_IFREG | 0o6755},
		{os.ModeAppend | 0o200, syscall.S_IFREG | 0o200},
	} {
		if got := UnixMode(c.mode); got != c.bits {
			t.Errorf("%v: %o, want %o", c.mode, got, c.bits)
		}
		if got, want := FileMode(c.bits), c.mode&^os.ModeAppend; got != want {
			t.Errorf("%o: %v, want %v", c.bits, got, want)
		}
		if got, want := Permissions(c.bits), c.mode&^(os.ModeType|os.ModeAppend); got != want {
			t.Errorf("%o: %v, want %v", c.bits, got, want)
		}
	}
}
