package own

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// mountID returns the number that the mount table has for the mount in which path is,
// "" where the system does not tell.
func mountID(path string) string {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	text, _ := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	for line := range strings.Lines(string(text)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strings.TrimSpace(id)
		}
	}
	return ""
}

// placeOf returns where the kernel says that an open file is, which no link changes.
func placeOf(f *os.File) (string, error) {
	return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}
