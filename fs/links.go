package fs

import (
	"hutch/fs/folder"
	"hutch/fs/node"
)

// What a guest's links lead to: its workspace is in work, and all else in root
// while it runs. Of a snapshot there is only what the guest had written, in layer.
var (
	workLinks = links("/workspace", node.Place{There: "/workspace", Here: "."}, node.Place{There: "/", Here: "../root"})
	rootLinks = links("/", node.Place{There: "/workspace", Here: "../work"}, node.Place{There: "/", Here: "."})
	snapLinks = map[string]*node.Links{
		"work":  links("/workspace", node.Place{There: "/workspace", Here: "."}, node.Place{There: "/", Here: "../layer"}),
		"layer": links("/", node.Place{There: "/workspace", Here: "../work"}, node.Place{There: "/", Here: "."}),
	}
)

func links(at string, places ...node.Place) *node.Links { return &node.Links{At: at, Places: places} }

// openLinked opens a folder of files that a guest may have written.
func openLinked(dir, name string, l *node.Links) (*folder.Folder, error) {
	f, err := folder.Open(dir, name)
	if err == nil {
		f.Links = l
	}
	return f, err
}
