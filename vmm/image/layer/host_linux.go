package layer

import (
	"os"

	"golang.org/x/sys/unix"
)

const capability = "security.capability"

func setCapability(f *os.File, value string) error {
	return unix.Fsetxattr(int(f.Fd()), capability, []byte(value), 0)
}

func getCapability(f *os.File) string {
	var buf [64]byte
	n, err := unix.Fgetxattr(int(f.Fd()), capability, buf[:])
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

// Settle has what was written to dir's file system stay after a power cut.
func Settle(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// clone has out share all blocks of in.
func clone(out, in *os.File) error { return unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) }
