package tree

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"hutch/fs"
	"hutch/fs/folder"
)

func workFolder(c call) (fs.Node, error) {
	c.At.vm.Use()
	return c.At.vm.folder("work", workLinks)
}

// envFolder is a folder of small files: a value that cannot be written leaves
// the one before.
func envFolder(c call) (fs.Node, error) {
	dir := filepath.Join(c.At.vm.Dir(), "env")
	f, err := c.At.vm.openFolder("env", func() (*folder.Folder, error) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		os.Chmod(dir, 0o700) // what agents are given to log in with is nobody else's
		f, err := folder.OpenWhole(dir, "env")
		if err == nil {
			f.Admit = func(name string) error {
				err := admitVariable(name)
				if err != nil {
					failed(c.At, err)
				}
				return err
			}
		}
		return f, err
	})
	if err != nil {
		return nil, err
	}
	return f.Root(), nil
}

// folder returns the node of one of the folders that a VM has on the host.
func (v *vm) folder(name string, links *fs.Links) (fs.Node, error) {
	dir := filepath.Join(v.Dir(), name)
	f, err := v.openFolder(name, func() (*folder.Folder, error) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		return openLinked(dir, name, links)
	})
	if err != nil {
		return nil, err
	}
	return f.Root(), nil
}

// openFolder returns the folder that is known by key, opened if it is not yet.
func (v *vm) openFolder(key string, open func() (*folder.Folder, error)) (*folder.Folder, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.folders == nil {
		return nil, fmt.Errorf("%w: vm %s is gone", fs.ErrNotExist, v.Name())
	}
	if f := v.folders[key]; f != nil {
		return f, nil
	}
	f, err := open()
	if err == nil {
		v.folders[key] = f
	}
	return f, err
}

// forgetFolder has a folder opened anew when it is next asked for. Who is in
// the old one may stay; it is closed when nobody is.
func (v *vm) forgetFolder(key string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.folders, key)
}

// scratch is where editors keep their files while they edit config.
func scratch(c call) (fs.Node, error) { return c.At.vm.folder("edit", nil) }

// editorNames are the names that vim, emacs, sed -i and VS Code give to files
// beside the one they edit.
var editorNames = regexp.MustCompile(`^(sed\w{6}|\.?#?config\W.*|\.#config.*|#config#|config\.\w+|4913|\d{4})$`)

// editorFile says whether a file of that name may be made beside config.
func editorFile(name string) bool { return editorNames.MatchString(name) }

func profileFolder(c call) (fs.Node, error) { return c.At.s.profileDir.Root(), nil }
func profileErr(c call) (string, error)     { return c.At.s.profiles.Err(), nil }
