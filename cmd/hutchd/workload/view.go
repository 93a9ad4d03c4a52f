package workload

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hutch/aggd/programs"
	"hutch/aggd/wire"
	"hutch/profiles"
	"hutch/vmm/image"
)

// A view is what a sandbox of the image host shows of the host's files.
type view []profiles.Mount

// has says whether the sandbox shows the file that the host has at a path there, too.
func (v view) has(path string) bool {
	host := ""
	if image.Shows(path) {
		host = path
	}
	var in profiles.Mount // the innermost that path is in
	for _, m := range v {
		if profiles.Within(m.Guest, path) && len(m.Guest) >= len(in.Guest) {
			in, host = m, filepath.Join(m.Host, strings.TrimPrefix(path, m.Guest))
		}
	}
	return host == path
}

// lacks returns the folders of the host in which a file is that the sandbox does not
// show: its own, and where it leads if it is a link. There are none if the host has
// no such file.
func (v view) lacks(file string) []string {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return nil
	}
	var list []string
	for _, path := range []string{filepath.Clean(file), real} {
		if !v.has(path) {
			list = append(list, folderOf(path, real))
		}
	}
	return outer(list)
}

// outer returns the folders of a list that are in no other of it.
func outer(list []string) []string {
	slices.Sort(list) // a folder comes before what is in it
	var found []string
	for _, dir := range list {
		if !slices.ContainsFunc(found, func(in string) bool { return profiles.Within(in, dir) }) {
			found = append(found, dir)
		}
	}
	return found
}

// folderOf returns the folder with which a file is complete: that of a package is
// above its node_modules, and that of a program with a bin of its own above that if
// the program leads to beside it.
func folderOf(path, real string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return path
	}
	if root, _, ok := strings.Cut(path, "/node_modules/"); ok {
		return root
	}
	dir := filepath.Dir(path)
	if up := filepath.Dir(dir); filepath.Base(dir) == "bin" && real != path && profiles.Within(up, real) {
		return up
	}
	return dir
}

// find returns where the host has the program of a command, "" if nowhere: by the
// PATH that it is given, or that of a guest, or else that of hutchd, by which a
// person means it.
func find(p wire.Program) string {
	if strings.Contains(p.Command, "/") {
		return p.Command
	}
	for _, path := range []string{p.Env["PATH"], programs.DefaultPath, os.Getenv("PATH")} { // a guest's is the second
		if file := programs.Find(p.Command, path); file != "" {
			return file
		}
	}
	return ""
}

// unseen returns the folders without which the sandbox has no program to start, and
// where that is.
func (v view) unseen(p wire.Program) (program string, folders []string) {
	file := find(p)
	if !filepath.IsAbs(file) {
		return "", nil
	}
	return file, v.lacks(file)
}

// unread returns the arguments that name files of the host which the sandbox does
// not show, and their folders.
func (v view) unread(p wire.Program) (args, folders []string) {
	for _, arg := range p.Args {
		if !filepath.IsAbs(arg) {
			continue
		}
		if list := v.lacks(arg); len(list) > 0 {
			args, folders = append(args, arg), append(folders, list...)
		}
	}
	return args, outer(folders)
}
