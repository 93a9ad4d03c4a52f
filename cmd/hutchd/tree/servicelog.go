package tree

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"hutch/fs"
)

// serviceLog opens the log of this run of hutchd.
func serviceLog(follow bool) func(call, int) (fs.Handle, error) {
	return func(c call, flags int) (fs.Handle, error) {
		return c.At.s.cfg.ServiceLog.Open(follow, flags&syscall.O_NONBLOCK != 0), nil
	}
}

func serviceLogSize(c call) uint64 { return c.At.s.cfg.ServiceLog.Size() }

// panics gives what the Go runtime wrote when hutchd crashed, in this run
// (goroutines that were saved) and in former ones.
func panics(c call) (string, error) {
	text, err := os.ReadFile(c.At.s.cfg.CrashLog)
	if os.IsNotExist(err) {
		return "", nil
	}
	return string(text), err
}

var logLevel = regexp.MustCompile(`level=(WARN|ERROR) msg=("(?:[^"\\]|\\.)*"|\S+)`)

// triage counts the warnings and errors of the service's log by message, the
// most frequent first, and tells of crashes.
func triage(c call) (string, error) {
	counts := map[string]int{}
	text := readLog(c.At.s.cfg.ServiceLog)
	for line := range strings.Lines(text) {
		if m := logLevel.FindStringSubmatch(line); m != nil {
			counts[strings.ToLower(m[1])+" "+m[2]]++
		}
	}
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
	var b strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&b, "%d %s\n", counts[k], k)
	}
	if crash, err := panics(c); err == nil && crash != "" {
		fmt.Fprintf(&b, "%d crashes, see log/panics\n", strings.Count(crash, "\ngoroutine ")+1)
	}
	return b.String(), nil
}

func readLog(l *fs.Log) string {
	h := l.Open(false, false)
	var b strings.Builder
	p := make([]byte, 64<<10)
	for {
		n, _ := h.ReadAt(nil, p, int64(b.Len()))
		if n == 0 {
			return b.String()
		}
		b.Write(p[:n])
	}
}
