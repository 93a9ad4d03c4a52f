package tree

import (
	"hutch/fs"
	"hutch/fs/folder"
)

// What a guest's links lead to: its workspace is in work, and all else in root
// while it runs. Of a snapshot there is only what the guest had written, in layer.
var (
	workLinks = links("/workspace", fs.Place{There: "/workspace", Here: "."}, fs.Place{There: "/", Here: "../root"})
	rootLinks = links("/", fs.Place{There: "/workspace", Here: "../work"}, fs.Place{There: "/", Here: "."})
	snapLinks = map[string]*fs.Links{
		"work":  links("/workspace", fs.Place{There: "/workspace", Here: "."}, fs.Place{There: "/", Here: "../layer"}),
		"layer": links("/", fs.Place{There: "/workspace", Here: "../work"}, fs.Place{There: "/", Here: "."}),
	}
)

func links(at string, places ...fs.Place) *fs.Links { return &fs.Links{At: at, Places: places} }

// openLinked opens a folder of files that a guest may have written.
func openLinked(dir, name string, l *fs.Links) (*folder.Folder, error) {
	f, err := folder.Open(dir, name)
	if err == nil {
		f.Links = l
	}
	return f, err
}
