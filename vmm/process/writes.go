package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Writes says whether a process has the file with that number open for
// writing, where the system tells.
func Writes(pid int, dev, ino uint64) bool {
	dir := fmt.Sprintf("/proc/%d", pid)
	list, _ := os.ReadDir(filepath.Join(dir, "fd"))
	for _, fd := range list {
		fi, err := os.Stat(filepath.Join(dir, "fd", fd.Name()))
		if err != nil || !fi.Mode().IsRegular() {
			continue
		}
		st, ok := fi.Sys().(*syscall.Stat_t)
		if !ok || uint64(st.Dev) != dev || st.Ino != ino {
			continue
		}
		info, _ := os.ReadFile(filepath.Join(dir, "fdinfo", fd.Name()))
		for line := range strings.Lines(string(info)) {
			flags, found := strings.CutPrefix(line, "flags:")
			n, err := strconv.ParseUint(strings.TrimSpace(flags), 8, 64)
			if found && err == nil && n&syscall.O_ACCMODE != syscall.O_RDONLY {
				return true
			}
		}
	}
	return false
}
