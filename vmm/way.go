package vmm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"hutch/fs"
	"hutch/vmm/own"
)

// maxLinks is how many links a path may lead through.
const maxLinks = 40

// way returns the folders in which names are looked up on the way to a path, which is
// absolute, links followed.
func way(path string) (folders []string, err error) {
	at, links := "/", 0
	for todo := strings.Split(path, "/"); len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		folders = append(folders, at)
		next := filepath.Join(at, name)
		target, err := os.Readlink(next)
		if err != nil { // it is no link, or not there
			at = next
			continue
		}
		if links++; links > maxLinks {
			return nil, syscall.ELOOP
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return folders, nil
}

// straight says why one of the folders that the VM is to see may not be where its path
// seems to lead: a guest, this VM's or another's, may put a link in its place or on the
// way.
func (v *VM) straight(list []Mount) error {
	written := map[string][]Mount{v.Name(): list}
	for _, o := range v.t.List() {
		if o != v {
			written[o.Name()], _ = o.Config().Mounts.List()
		}
	}
	view := own.Look()
	for _, m := range list {
		folders, err := way(m.Host)
		if err != nil {
			return fmt.Errorf("mount %s: %w", m.Host, err)
		}
		for name, of := range written {
			if in := writable(view, of, folders); in != "" {
				return fmt.Errorf("%w: mount %s: the way there is through %s, which the guest of vm %s may write and so have lead anywhere: mount a folder elsewhere, or that one for reading only",
					fs.ErrNotPermitted, m.Host, in, name)
			}
		}
	}
	return nil
}

// writable returns the folder of a mount that a guest may write in which one of the
// folders is.
func writable(view *own.View, list []Mount, folders []string) string {
	for _, m := range list {
		host, err := filepath.EvalSymlinks(m.Host)
		if m.ReadOnly || err != nil {
			continue
		}
		if slices.ContainsFunc(folders, func(dir string) bool { return view.Shows(host, dir) }) {
			return m.Host
		}
	}
	return ""
}
