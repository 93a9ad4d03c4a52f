package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hutch/fs/mountinfo"
)

// A mount is a line of mountinfo about control groups.
type mount struct {
	root, dir   string   // the group that is seen, and where
	v2          bool     // of version 2
	controllers []string // of version 1
}

// readMounts reads where groups are mounted.
func readMounts(name string) ([]mount, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return parseMounts(string(text)), nil
}

// parseMounts parses mountinfo. What is not of control groups is left out.
func parseMounts(text string) []mount {
	var list []mount
	for _, m := range mountinfo.Parse(text) {
		switch m.Kind {
		case "cgroup":
			list = append(list, mount{root: m.Root, dir: m.Dir, controllers: strings.Split(m.Options, ",")})
		case "cgroup2":
			list = append(list, mount{root: m.Root, dir: m.Dir, v2: true})
		}
	}
	return list
}

// readOwn reads which groups a process is a member of.
func readOwn(name string) (map[string]string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return parseOwn(string(text)), nil
}

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
func locate(c string, mounts []mount, own map[string]string) (place, error) {
	var v2 *mount
	for i, m := range mounts {
		if slices.Contains(m.controllers, c) {
			return place{Dir: m.find(own[c]), top: m.dir}, nil
		}
		if m.v2 && v2 == nil {
			v2 = &mounts[i]
		}
	}
	if v2 == nil {
		return place{}, fmt.Errorf("no control groups with %s are mounted", c)
	}
	return place{Dir: v2.find(own[""]), V2: true, top: v2.dir}, nil
}

// find returns where the group is seen that the system calls path. In a
// container it may be seen elsewhere than it is, or not at all: then the root
// of what is seen is the best there is.
func (m mount) find(path string) string {
	below, ok := strings.CutPrefix(path, strings.TrimSuffix(m.root, "/"))
	if ok && below != "" && !strings.HasPrefix(below, "/") {
		ok = false
	}
	dir := filepath.Join(m.dir, below)
	if !ok || dir != m.dir && !strings.HasPrefix(dir, strings.TrimSuffix(m.dir, "/")+"/") {
		return m.dir
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return m.dir
	}
	return dir
}
