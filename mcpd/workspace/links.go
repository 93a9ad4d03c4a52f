package workspace

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// The limits of a path with links in it: how many of them it may lead through, as
// os.Root has it, and through how many folders, as a guest can make it long.
const (
	maxLinks = 8
	maxParts = 512
)

var errWinding = fmt.Errorf("leads through more than %d folders and links", maxParts)

// resolve returns the path that name means once the links in it are followed,
// the one at its end only if last is so. A name that os.Root does not open, as
// its links lead out of the workspace or in a circle, stays as it is.
func (w *Workspace) resolve(name string, last bool) (string, error) {
	todo, done, links := strings.Split(name, "/"), ".", 0
	for looked := 0; len(todo) > 0; looked++ {
		part := todo[0]
		todo = todo[1:]
		switch {
		case looked == maxParts:
			return "", at(name, errWinding)
		case part == "" || part == ".":
			continue
		case part == ".." && done == ".":
			return name, nil
		case part == "..":
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, part)
		if len(todo) == 0 && !last {
			return next, nil
		}
		text, err := os.Readlink(filepath.Join(w.dir, next))
		switch {
		case errors.Is(err, syscall.EINVAL): // it is no link
			done = next
			continue
		case err != nil: // there is nothing, nor below it
			return path.Join(next, path.Join(todo...)), nil
		}
		if links++; links > maxLinks || path.IsAbs(text) {
			return name, nil
		}
		todo = append(strings.Split(text, "/"), todo...)
	}
	return done, nil
}
