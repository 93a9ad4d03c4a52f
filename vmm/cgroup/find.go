package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hutch/fs/mountinfo"
)

// parseOwn parses lines like "4:cpu,cpuacct:/a/b", as cgroups(7) has them. The
// group of version 2 is that of the controller "".
func parseOwn(text string) map[string]string {
	own := make(map[string]string)
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 || !strings.HasPrefix(f[2], "/") {
			continue
		}
		for c := range strings.SplitSeq(f[1], ",") {
			own[c] = f[2]
		}
	}
	return own
}

// locate returns the folder of the process' own group for controller c: of
// version 1 where that has it, else of version 2.
func locate(c string, mounts []mountinfo.Mount, own map[string]string) (place, error) {
	var v2 *mountinfo.Mount
	for i, m := range mounts {
		switch {
		case m.Kind == "cgroup" && slices.Contains(strings.Split(m.Options, ","), c):
			return place{Dir: seen(m, own[c]), top: m.Dir}, nil
		case m.Kind == "cgroup2" && v2 == nil:
			v2 = &mounts[i]
		}
	}
	if v2 == nil {
		return place{}, fmt.Errorf("no control groups with %s are mounted", c)
	}
	return place{Dir: seen(*v2, own[""]), V2: true, top: v2.Dir}, nil
}

// seen returns where in the mount m the group is seen that the system calls
// path. In a container it may be seen elsewhere than it is, or not at all: then
// the root of what is seen is the best there is.
func seen(m mountinfo.Mount, path string) string {
	below, ok := strings.CutPrefix(path, strings.TrimSuffix(m.Root, "/"))
	if ok && below != "" && !strings.HasPrefix(below, "/") {
		ok = false
	}
	dir := filepath.Join(m.Dir, below)
	if !ok || dir != m.Dir && !strings.HasPrefix(dir, strings.TrimSuffix(m.Dir, "/")+"/") {
		return m.Dir
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return m.Dir
	}
	return dir
}
