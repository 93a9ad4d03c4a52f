package tree

import (
	"fmt"

	"hutch/fs"
)

func imageVerbs() []verb {
	return []verb{
		{Name: "pull", Args: "REF", Min: 1, Max: 1, Do: pullImage, Doc: "get its files from a registry; returns when they are there"},
		{Name: "import", Args: "PATH", Min: 1, Max: 1, Do: importImage, Doc: "get its files from a folder or an archive of the host"},
		{Name: "cancel", Max: 0, Do: cancelImage, Doc: "end a pull or import"},
	}
}

func pullImage(c call, args []string) error {
	return c.At.s.Images().Pull(c.Ctx, c.At.name, args[0])
}

func importImage(c call, args []string) error {
	return c.At.s.Images().Import(c.Ctx, c.At.name, args[0])
}

func cancelImage(c call, _ []string) error {
	return c.At.s.Images().Cancel(c.Ctx, c.At.name)
}

func imageNames(c call) ([]string, error) { return c.At.s.Images().List() }

func enterImage(c call, name string) (at, error) {
	if !c.At.s.Images().Has(name) {
		return at{}, fmt.Errorf("%w: image %q", fs.ErrNotExist, name)
	}
	return at{s: c.At.s, name: name}, nil
}

func makeImage(c call, name string) error {
	if err := fs.CheckWord("image", name); err != nil {
		return err
	}
	return c.At.s.Images().Make(name)
}

// dropImage removes an image. One that is made later under its name is
// another file.
func dropImage(c call, name string) error {
	if err := c.At.s.RemoveImage(name); err != nil {
		return err
	}
	c.At.s.forget(func(i item) bool { return i == item{name: name} })
	return nil
}

func imageName(c call) (string, error)   { return c.At.name + "\n", nil }
func imageInfo(c call) (string, error)   { return c.At.s.Images().Info(c.At.name) }
func imageStatus(c call) (string, error) { return c.At.s.Images().Status(c.At.name) }
