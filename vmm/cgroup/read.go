package cgroup

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Events count what the members of a group ran into.
type Events struct {
	OOM  int64 // processes that were killed because there was no memory left
	PIDs int64 // processes that could not be made
}

// Events returns the counts since the group was made; of what is not known, 0.
func (g Group) Events() Events {
	var e Events
	if at, ok := g[Memory]; ok {
		name := "memory.oom_control"
		if at.V2 {
			name = "memory.events"
		}
		e.OOM = at.count(name, "oom_kill")
	}
	if at, ok := g[PIDs]; ok {
		e.PIDs = at.count("pids.events", "max")
	}
	return e
}

// Used returns the bytes of memory that the members hold, without what the
// system could take back at once.
func (g Group) Used() int64 {
	at, ok := g[Memory]
	if !ok {
		return 0
	}
	name, cache := "memory.usage_in_bytes", "total_inactive_file"
	if at.V2 {
		name, cache = "memory.current", "inactive_file"
	}
	return max(0, parseNumber(at.read(name))-at.count("memory.stat", cache))
}

// count returns the number after key in a file of lines like "oom_kill 1".
func (at place) count(name, key string) int64 { return parseCount(at.read(name), key) }

func (at place) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(at.Dir, name))
	return string(text)
}

// parseCount returns the number after key in lines like "oom_kill 1", 0 where
// there is none.
func parseCount(text, key string) int64 {
	for line := range strings.Lines(text) {
		if k, v, _ := strings.Cut(line, " "); k == key {
			return parseNumber(v)
		}
	}
	return 0
}

// parseNumber returns the number that text is; max is the largest, what is no
// number 0.
func parseNumber(text string) int64 {
	text = strings.TrimSpace(text)
	if text == "max" {
		return math.MaxInt64
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// members returns the processes of the group dir.
func members(dir string) []int {
	text, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	var pids []int
	for _, word := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(word); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}
