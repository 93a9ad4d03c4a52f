package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Memory returns the bytes that processes hold, each shared page counted in
// parts where the system tells, and whole where it does not.
func Memory(pids []int) int64 {
	var sum int64
	for _, pid := range pids {
		n := field(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss:")
		if n == 0 {
			n = field(fmt.Sprintf("/proc/%d/status", pid), "VmRSS:")
		}
		sum += n
	}
	return sum << 10
}

// Time returns what processes that run have had of processors, and
// those children of theirs that have ended.
func Time(pids []int) time.Duration {
	const tick = 10 * time.Millisecond // of /proc, on every Linux that there is
	var sum time.Duration
	for _, pid := range pids {
		f := stat(pid)
		if len(f) < 15 {
			continue
		}
		for _, w := range f[11:15] {
			n, _ := strconv.ParseInt(w, 10, 64)
			sum += time.Duration(n) * tick
		}
	}
	return sum
}

// stat returns the fields of the process' stat file, from the third, its state.
func stat(pid int) []string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	after := bytes.LastIndexByte(data, ')') // of the name, which may have blanks in it
	return strings.Fields(string(data[after+1:]))
}

// field returns the number after name in a file of lines like "Pss: 12 kB".
func field(path, name string) int64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n
		}
	}
	return 0
}

// Children returns the processes that pid started, and those that they did.
func Children(pid int) []int {
	var all []int
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		data, _ := os.ReadFile(file)
		for _, word := range strings.Fields(string(data)) {
			if n, err := strconv.Atoi(word); err == nil {
				all = append(append(all, n), Children(n)...)
			}
		}
	}
	return all
}
