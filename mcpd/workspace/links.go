package workspace

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"syscall"
)

// The limits of a path with links in it: how many of them it may lead through, as
// os.Root has it, and through how many folders, as a guest can make it long.
const (
	maxLinks = 8
	maxParts = 256
)

var errWinding = fmt.Errorf("leads through more than %d folders and links", maxParts)

// resolve returns the path that name means once the links in it are followed,
// the one at its end only if last is so. It fails where they lead out of the
// workspace, as os.Root would. A name whose links go in a circle stays as it is.
func (w *Workspace) resolve(name string, last bool) (string, error) {
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return "", fmt.Errorf("workspace: %w", bare(err))
	}
	defer root.Close()
	todo, done, links, link := strings.Split(name, "/"), ".", 0, ""
	for looked := 0; len(todo) > 0; looked++ {
		part := todo[0]
		todo = todo[1:]
		switch {
		case looked == maxParts:
			return "", at(name, errWinding)
		case part == "" || part == ".":
			continue
		case part == ".." && done == ".":
			return "", &Traversal{path: name, link: link}
		case part == "..":
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, part)
		if len(todo) == 0 && !last {
			return next, nil
		}
		text, err := root.Readlink(next)
		switch {
		case errors.Is(err, syscall.EINVAL): // it is no link
			done = next
			continue
		case err != nil: // there is nothing, nor below it
			return path.Join(next, path.Join(todo...)), nil
		}
		switch links++; {
		case links > maxLinks:
			return name, nil
		case path.IsAbs(text):
			return "", &Traversal{path: name, link: text}
		}
		todo, link = append(strings.Split(text, "/"), todo...), text
	}
	return done, nil
}
