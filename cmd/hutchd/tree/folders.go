package tree

import (
	"context"
	"os"
	"path/filepath"

	"hutch/cmd/hutchd/sandbox"
	"hutch/fs"
	"hutch/fs/folder"
	"hutch/vmm"
)

func workFolder(c call) (fs.Node, error) {
	c.At.vm.Use()
	return vmFolder(c, "work", func(dir string) (*folder.Folder, error) { return openLinked(dir, "work", workLinks) })
}

// envFolder is a folder of small files: a value that cannot be written leaves
// the one before.
func envFolder(c call) (fs.Node, error) {
	return vmFolder(c, "env", func(dir string) (*folder.Folder, error) {
		os.Chmod(dir, 0o700) // what agents are given to log in with is nobody else's
		f, err := folder.OpenWhole(dir, "env")
		if err == nil {
			f.Admit = func(name string) error {
				err := sandbox.CheckVariable(name)
				if err != nil {
					failed(c.At, err)
				}
				return err
			}
			f.Fits = func(name string, text []byte) error {
				err := vmm.CheckEnvSize(dir, name, text)
				if err != nil {
					failed(c.At, err)
				}
				return err
			}
		}
		return f, err
	})
}

// vmFolder returns the node of one of the folders that a VM has on the host.
func vmFolder(c call, name string, open func(dir string) (*folder.Folder, error)) (fs.Node, error) {
	f, err := c.At.vm.Folder(name, func() (*folder.Folder, error) {
		dir := filepath.Join(c.At.vm.Dir(), name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		return open(dir)
	})
	if err != nil {
		return nil, err
	}
	return f.Root(), nil
}

func profileFolder(c call) (fs.Node, error) { return c.At.s.profileDir.Root(), nil }
func profileErr(c call) (string, error)     { return c.At.s.Profiles.Err(), nil }

// openShow shows the profile of each name that is written.
func openShow(c call, flags int) (fs.Handle, error) {
	return c.At.s.openRPC(flags, func(_ context.Context, name string) (string, error) { return c.At.s.Profiles.Show(name) })
}

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
